/** Where the events of a batch were in the batch that was sent, for a source that reads only the last of them again. */
export class SentOffsets {
  /** Where the batch that was sent began in its chunk. */
  readonly #from: number
  /** Where each line was in that chunk, once they are in another one. */
  readonly #lines: Int32Array | undefined

  constructor(from: number, lines?: Int32Array) {
    this.#from = from
    this.#lines = lines
  }

  /** How many bytes come before event `i`. `starts`: where lines are now. */
  before(starts: Int32Array, i = 0): number {
    return (this.#lines ?? starts)[i]! - this.#from
  }

  /** The offsets of `length` lines whose bytes move elsewhere now. */
  kept(starts: Int32Array, length: number): SentOffsets {
    return new SentOffsets(this.#from, (this.#lines ?? starts).slice(0, length))
  }

  slice(from: number, to: number): SentOffsets {
    return new SentOffsets(this.#from, this.#lines?.slice(from, to))
  }

  move(from: number, to: number): void {
    if (this.#lines) this.#lines[to] = this.#lines[from]!
  }
}
