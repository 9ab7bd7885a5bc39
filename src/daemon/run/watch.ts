import type { Logger } from 'pino'
import type { Config } from '../../engine/config/load.js'
import { digestOfFiles, stateOfFiles } from '../../engine/config/yaml/config-files.js'
import { DataDirError, type DataDirLock } from '../../engine/run/state/data-dir.js'
import { moduleFiles } from '../../lib/modules/module-files.js'
import { every } from '../../lib/time.js'

/** Polling interval. A change is reported after the file has stayed the same for one interval. */
const POLL_MS = 500
const DATA_DIR_POLL_MS = 1000

export interface WatchedFiles {
  readonly path: string
  /** The digest of the configuration's files when they were first read. */
  readonly digest: string
  /** Files that were also used when the configuration was last read, such as plugins. */
  readonly others?: () => readonly string[]
}

/**
 * While enabled, polls the files of a configuration, and reports each change of content once. Unlike file system
 * notifications, polling notices replaced files, changed symbolic links on the path, and changes on remote disks.
 */
export class ConfigWatch {
  readonly #files: WatchedFiles
  readonly #changed: () => Promise<void>
  /** The digest of the files when they were last tried, whether they were valid or not. */
  #tried: string | undefined
  #state = ''
  #settling = false
  #busy = false
  #stop: (() => void) | undefined

  constructor(files: WatchedFiles, changed: () => Promise<void>) {
    this.#files = files
    this.#tried = `${files.digest} ${this.#othersDigest()}`
    this.#changed = changed
  }

  set(watching: boolean): void {
    if (watching === (this.#stop !== undefined)) return
    this.#stop?.()
    this.#stop = watching ? every(POLL_MS, () => void this.poll()) : undefined
  }

  /** Call this when the files were read for another reason, so that their current content is not reported. */
  read(): void {
    this.#tried = this.#digest()
  }

  async poll(): Promise<void> {
    if (this.#busy) return
    const state = stateOfFiles(this.#files.path, this.#files.others?.())
    if (state !== this.#state) {
      this.#state = state
      this.#settling = true
      return
    }
    if (!this.#settling) return
    this.#settling = false
    const digest = this.#digest()
    if (digest === this.#tried) return
    this.#tried = digest
    this.#busy = true
    await this.#changed().finally(() => {
      this.#busy = false
    })
  }
  #digest(): string {
    return `${digestOfFiles([this.#files.path])} ${this.#othersDigest()}`
  }

  #othersDigest(): string | undefined {
    return digestOfFiles(this.#files.others?.() ?? [])
  }
}

/** The module files that components name, and the files that these modules import by relative paths. */
export function filesOfModules({ processors }: Pick<Config, 'processors'>): readonly string[] {
  return processors.flatMap(({ definition: { module }, options }) => {
    const path = module && (options as Readonly<Record<string, unknown>>)[module]
    return typeof path === 'string' ? moduleFiles(path) : []
  })
}

/**
 * Notices when `data_dir` is removed or replaced while the daemon runs. If there is a new folder, uses it; otherwise
 * creates the folder. Then calls `renewed`. From then on, positions and disk buffers are stored in that folder. Returns
 * a function that ends the watch.
 */
export function watchDataDir(lock: DataDirLock, dataDir: string, log: Logger, renewed: () => void): () => void {
  let logged = ''
  let checking = false
  const check = async () => {
    if (checking) return
    checking = true
    try {
      if (!(await lock.renew())) return
      logged = ''
      const code = 'SLUICE_DATA_DIR_REPLACED'
      const text =
        'data_dir was removed or replaced while the daemon was running; using the new folder. Events from disk buffers are lost if the daemon stops before delivering them'
      log.error({ code, data_dir: dataDir }, text)
      renewed()
    } catch (error) {
      if (!(error instanceof DataDirError)) throw error
      if (logged === error.message) return
      logged = error.message
      const text =
        'data_dir cannot be used: it was removed or replaced while the daemon was running; positions may not be saved'
      log.error({ code: error.code, data_dir: dataDir, error: error.message }, text)
    } finally {
      checking = false
    }
  }
  return every(DATA_DIR_POLL_MS, () => void check())
}
