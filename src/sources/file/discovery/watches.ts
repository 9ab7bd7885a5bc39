import { type FSWatcher, watch } from 'node:fs'
import { dirname } from 'node:path'
import type { Logger } from 'pino'
import { errorCode, errorText } from '../../../core/errors.js'
import { statSync, unlessSilent } from '../../../lib/files/remote/guarded-fs.js'
import type { Clock } from '../../../lib/time.js'
import type { Slices } from '../slices.js'

/** After the system refused a watch, none is asked for during this time. */
const REFUSED_MS = 60_000

/** `name` in `folder` changed, or came or went (`rename`). */
export type OnHint = (folder: string, type: 'change' | 'rename', name: string) => void

interface Watch {
  readonly watcher: FSWatcher
  /** The folder that is watched: one that was made again under the same name is another. */
  readonly folder: string
}

/** Watches folders. Its notices are hints: it may miss any change, and the next sweep finds it. */
export class Watches {
  readonly #log: Logger
  readonly #clock: Clock
  readonly #onHint: OnHint
  readonly #isRemote: (folder: string) => boolean
  readonly #watch: typeof watch
  readonly #watches = new Map<string, Watch>()
  #refusedUntil = 0
  #logged = false

  /** `watchFolder` is for tests. */
  constructor(
    log: Logger,
    clock: Clock,
    onHint: OnHint,
    isRemote: (folder: string) => boolean = () => false,
    watchFolder = watch,
  ) {
    this.#isRemote = isRemote
    this.#watch = watchFolder
    this.#log = log
    this.#clock = clock
    this.#onHint = onHint
  }

  /**
   * Watches exactly these folders; for one that is missing, the nearest above it that is there. True when there were
   * new ones: there is no notice of what happened in them before.
   */
  async sync(folders: Iterable<string>, slices: Slices): Promise<boolean> {
    const wanted = new Map<string, string>()
    for (let folder of folders) {
      if (slices.due) await slices.pause()
      // It would notice changes by this machine only, and setting it could wait for a server without end.
      if (this.#isRemote(folder)) continue
      for (;;) {
        if (wanted.has(folder)) break
        const identity = identityOf(folder)
        if (identity !== undefined) wanted.set(folder, identity)
        else if (folder !== '/') {
          folder = dirname(folder)
          continue
        }
        break
      }
    }
    for (const [folder, { watcher, folder: identity }] of this.#watches) {
      if (wanted.get(folder) === identity) continue
      watcher.close()
      this.#watches.delete(folder)
    }
    if (this.#clock.now() < this.#refusedUntil) return false
    let added = false
    for (const [folder, identity] of wanted) {
      if (slices.due) await slices.pause()
      if (this.#watches.has(folder)) continue
      if (!this.#add(folder, identity)) break
      added ||= this.#watches.has(folder)
    }
    return added
  }

  /** False: the system refuses. */
  #add(folder: string, identity: string): boolean {
    try {
      const watcher = this.#watch(folder, { persistent: false }, (type, name) => {
        if (name !== null) this.#onHint(folder, type, name)
      })
      watcher.on('error', error => this.#refused(folder, error))
      this.#watches.set(folder, { watcher, folder: identity })
      return true
    } catch (error) {
      const code = errorCode(error)
      if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'EACCES') return true
      this.#refused(folder, error)
      return false
    }
  }

  #refused(folder: string, error: unknown): void {
    this.#watches.get(folder)?.watcher.close()
    this.#watches.delete(folder)
    this.#refusedUntil = this.#clock.now() + REFUSED_MS
    if (this.#logged) return
    this.#logged = true
    this.#log.warn(
      { code: 'SLUICE_NO_WATCH', folder, cause: errorCode(error), error: errorText(error) },
      'folders cannot be watched (see fs.inotify.max_user_watches and max_user_instances); appends are found by the sweep only',
    )
  }

  close(): void {
    for (const { watcher } of this.#watches.values()) watcher.close()
    this.#watches.clear()
  }
}

function identityOf(folder: string): string | undefined {
  try {
    const stat = statSync(folder, { bigint: true, throwIfNoEntry: false })
    return stat?.isDirectory() ? `${stat.dev}:${stat.ino}:${stat.birthtimeNs}` : undefined
  } catch (error) {
    unlessSilent(error)
    return undefined
  }
}
