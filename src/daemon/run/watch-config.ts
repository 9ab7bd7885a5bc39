import type { Config } from '../../engine/config/load.js'
import { digestOfFiles, stateOfFiles } from '../../engine/config/yaml/files.js'
import { moduleFiles } from '../../lib/modules/module-files.js'
import { every } from '../../lib/time.js'

/** Polling interval. A changed file must also stay unchanged for this long before it is reported. */
const POLL_MS = 500

/** What is watched. */
export interface WatchedFiles {
  /** The configuration, a file or a folder. */
  readonly path: string
  /** The digest of its files when it was read first. */
  readonly digest: string
  /** Other files that it was read with last, such as those of plugins. */
  readonly others?: () => readonly string[]
}

/**
 * Polls the files of a configuration while enabled, and reports each change of content once. Polling, unlike watching,
 * notices files that are replaced, symbolic links that are switched on the path, and changes on remote disks.
 */
export class ConfigWatch {
  readonly #files: WatchedFiles
  readonly #changed: () => Promise<void>
  /** The digest that was tried last, good or bad. */
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

  /** Turns reporting on or off. */
  set(watching: boolean): void {
    if (watching === (this.#stop !== undefined)) return
    this.#stop?.()
    this.#stop = watching ? every(POLL_MS, () => void this.poll()) : undefined
  }

  /** The files were read for another reason: their current content needs no report. */
  read(): void {
    this.#tried = this.#digest()
  }

  /** Checks the files once. */
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

/** The files of the modules that components name, and of those that these import by relative paths. */
export function filesOfModules({ processors }: Pick<Config, 'processors'>): readonly string[] {
  return processors.flatMap(({ definition: { module }, options }) => {
    const path = module && (options as Readonly<Record<string, unknown>>)[module]
    return typeof path === 'string' ? moduleFiles(path) : []
  })
}
