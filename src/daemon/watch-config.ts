import { digestOfFiles, stateOfFiles } from '../config/yaml/files.js'
import { every } from '../lib/time.js'

/** Polling interval. A changed file must also stay unchanged for this long before it is reported. */
const POLL_MS = 500

/**
 * Polls the files of a configuration while enabled, and reports each change of content once. Polling, unlike watching,
 * notices files that are replaced, symbolic links that are switched on the path, and changes on remote disks.
 */
export class ConfigWatch {
  readonly #path: string
  readonly #changed: () => Promise<void>
  /** The digest that was tried last, good or bad. */
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

  /** Turns reporting on or off. */
  set(watching: boolean): void {
    if (watching === (this.#stop !== undefined)) return
    this.#stop?.()
    this.#stop = watching ? every(POLL_MS, () => void this.poll()) : undefined
  }

  /** The files were read for another reason: their current content needs no report. */
  read(): void {
    this.#tried = digestOfFiles(this.#path)
  }

  /** Checks the files once. */
  async poll(): Promise<void> {
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
