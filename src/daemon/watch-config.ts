import { digestOfFiles, stateOfFiles } from '../config/yaml/files.js'
import { every } from '../lib/time.js'

/** How often the files are looked at; what changed must have stayed the same for so long, too. */
const LOOK_MS = 500

/**
 * Looks at the files of a configuration while it is asked to, and reports changed contents, once. They are looked at
 * rather than watched: that sees files that are replaced, links that are switched on the way to them, and other machines'
 * disks.
 */
export class ConfigWatch {
  readonly #path: string
  readonly #changed: () => Promise<void>
  /** What was tried last, good or bad. */
  #tried: string | undefined
  #state = ''
  #settling = false
  #busy = false
  #stop: (() => void) | undefined

  constructor(path: string, digest: string, changed: () => Promise<void>) {
    this.#path = path
    this.#tried = digest
    this.#changed = changed
  }

  /** From now on changes are reported, or are not. */
  set(watching: boolean): void {
    if (watching === (this.#stop !== undefined)) return
    this.#stop?.()
    this.#stop = watching ? every(LOOK_MS, () => void this.look()) : undefined
  }

  /** The files were read for another reason. */
  read(): void {
    this.#tried = digestOfFiles(this.#path)
  }

  /** One look at the files. */
  async look(): Promise<void> {
    if (this.#busy) return
    const state = stateOfFiles(this.#path)
    if (state !== this.#state) {
      this.#state = state
      this.#settling = true
      return
    }
    if (!this.#settling) return
    this.#settling = false
    const digest = digestOfFiles(this.#path)
    if (digest === this.#tried) return
    this.#tried = digest
    this.#busy = true
    await this.#changed().finally(() => {
      this.#busy = false
    })
  }
}
