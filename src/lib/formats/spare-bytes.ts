import { GrowingBytes } from './growing-bytes.js'

const MOST_SPARE = 4
const LARGEST_SPARE = 8 * 1024 * 1024

/** Keeps the memory of requests for reuse. New memory for each request would cause many garbage collections. */
export class SpareBytes {
  readonly #spare: GrowingBytes[] = []

  /** `room`: the expected number of bytes. */
  take(room?: number): GrowingBytes {
    return this.#spare.pop() ?? new GrowingBytes(room)
  }

  /** Takes back memory that nobody reads any more. */
  give(memory: GrowingBytes): void {
    if (this.#spare.length === MOST_SPARE || memory.bytes.length > LARGEST_SPARE) return
    memory.clear()
    this.#spare.push(memory)
  }
}
