import { descriptorLimit } from '../../lib/files/descriptor-limit.js'
import { leadsTo } from './identity.js'
import type { Tailer } from './reading/tailer.js'

/** Maximum share of the process's descriptors per source. */
const SHARE = 0.5

/** Open files, the least recently read first. */
export class Descriptors {
  readonly #max: number
  readonly #open = new Set<Tailer>()

  constructor(max: number) {
    this.#max = Math.max(1, Math.min(max, Math.floor(descriptorLimit() * SHARE)))
  }

  get size(): number {
    return this.#open.size
  }

  /** Registers that a file was opened or read. */
  used(tailer: Tailer): void {
    this.#open.delete(tailer)
    this.#open.add(tailer)
  }

  close(tailer: Tailer): void {
    tailer.close()
    this.#open.delete(tailer)
  }

  /**
   * Closes the least recently read files, so that `spare` more can be opened. Files that could not be found again stay
   * open. Files with an unfinished line come last, because it is read again whenever they grow.
   */
  trim(spare: number, max = this.#max): void {
    let excess = this.#open.size + spare - max
    if (excess <= 0) return
    for (const unfinished of [false, true]) {
      for (const tailer of this.#open) {
        if (excess <= 0) return
        if (tailer.pending > 0 !== unfinished || tailer.reading || tailer.awaySince !== undefined) continue
        if (!this.#canBeFound(tailer)) continue
        this.close(tailer)
        excess--
      }
    }
  }

  #canBeFound({ path, key }: Tailer): boolean {
    try {
      return leadsTo(path, key)
    } catch {
      // Its file system does not respond.
      return false
    }
  }

  /** Closes some files after the system refused a descriptor. */
  refused(): void {
    this.trim(0, Math.floor(this.#open.size * 0.9))
  }
}
