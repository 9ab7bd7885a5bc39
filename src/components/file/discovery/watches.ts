import { type FSWatcher, watch } from 'node:fs'
import { dirname } from 'node:path'
import type { Logger } from 'pino'
import { errorCode, errorText, isMissing } from '../../../core/errors.js'
import { statOrNone } from '../../../lib/files/disk/disk.js'
import type { Clock } from '../../../lib/time.js'
import type { TimeSlices } from '../../../lib/time-slices.js'

/** After the system has refused a watch, no watch is requested during this time. */
const REFUSED_MS = 60_000

/** `name` in `folder` was modified (`change`), or created or removed (`rename`). */
export type OnHint = (folder: string, type: 'change' | 'rename', name: string) => void

interface Watch {
  readonly watcher: FSWatcher
  /** Identifies the watched folder, because another folder with the same name may have replaced it. */
  readonly folder: string
}

/** Watches folders. The notifications are only hints: if a change is not reported, the next sweep finds it. */
export class Watches {
  readonly #log: Logger
  readonly #clock: Clock
  readonly #onHint: OnHint
  readonly #isRemote: (folder: string) => boolean
  readonly #watch: typeof watch
  readonly #watches = new Map<string, Watch>()
  /** Whether all folders given to the last `sync` are watched. */
  areComplete = false
  #refusedUntil = 0
  #logged = false

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
   * Watches exactly these folders. If a folder is missing, watches its nearest existing parent instead. Returns true if
   * changes may have been missed, because a watch is new or a folder was removed before it was watched.
   */
  async sync(folders: Iterable<string>, slices: TimeSlices): Promise<boolean> {
    const wanted = new Map<string, string>()
    this.areComplete = false
    let areLocal = true
    for (let folder of folders) {
      if (slices.due) await slices.pause()
      // On a remote folder, a watch reports only changes by this machine, and creating a watch may block indefinitely.
      if (this.#isRemote(folder)) {
        areLocal = false
        continue
      }
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
    let isNew = false
    for (const [folder, identity] of wanted) {
      if (slices.due) await slices.pause()
      if (this.#watches.has(folder)) continue
      const added = this.#add(folder, identity)
      if (added === 'refused') break
      isNew ||= added !== 'unreadable'
    }
    this.areComplete = areLocal && this.#watches.size === wanted.size
    return isNew
  }

  #add(folder: string, identity: string): 'watched' | 'gone' | 'unreadable' | 'refused' {
    try {
      const watcher = this.#watch(folder, { persistent: false }, (type, name) => {
        if (name !== null) this.#onHint(folder, type, name)
      })
      watcher.on('error', error => this.#refused(folder, error))
      this.#watches.set(folder, { watcher, folder: identity })
      return 'watched'
    } catch (error) {
      if (isMissing(error)) return 'gone'
      if (errorCode(error) === 'EACCES') return 'unreadable'
      this.#refused(folder, error)
      return 'refused'
    }
  }

  #refused(folder: string, error: unknown): void {
    this.#watches.get(folder)?.watcher.close()
    this.#watches.delete(folder)
    this.areComplete = false
    this.#refusedUntil = this.#clock.now() + REFUSED_MS
    if (this.#logged) return
    this.#logged = true
    this.#log.warn(
      { code: 'SLUICE_NO_WATCH', folder, cause: errorCode(error), error: errorText(error) },
      'cannot watch folders (see fs.inotify.max_user_watches and max_user_instances); new lines are found only every scan_interval',
    )
  }

  close(): void {
    for (const { watcher } of this.#watches.values()) watcher.close()
    this.#watches.clear()
  }
}

function identityOf(folder: string): string | undefined {
  const stat = statOrNone(folder)
  return stat?.isDirectory() ? `${stat.dev}:${stat.ino}:${stat.birthtimeNs}` : undefined
}
