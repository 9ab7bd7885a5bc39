/**
 * Where the events of a batch were in the batch that was sent, for a source that reads only the last of them again; and
 * where that batch was among all that its source, or a disk buffer, has sent: so every event has a number of its own,
 * which it keeps when it is sent again.
 */
export class SentOffsets {
  /** Where the batch that was sent began in its chunk. */
  readonly #from: number
  /** Bytes sent before it. */
  readonly #at: number
  /** Whether its events are those of the batch that was sent, and not made of them. */
  readonly #isSent: boolean
  /** Where each line was in that chunk, once they are in another one. */
  readonly #lines: Int32Array | undefined

  constructor(from: number, at = 0, isSent = true, lines?: Int32Array) {
    this.#from = from
    this.#at = at
    this.#isSent = isSent
    this.#lines = lines
  }

  /** How many bytes come before event `i`; NaN if it was not sent. `starts`: where lines are now. */
  before(starts: Int32Array, i = 0): number {
    return this.#isSent ? this.#within(starts, i) : Number.NaN
  }

  /** How many bytes were sent, or made, before event `i`. */
  place(starts: Int32Array, i: number): number {
    return this.#at + this.#within(starts, i)
  }

  #within(starts: Int32Array, i: number): number {
    return (this.#lines ?? starts)[i]! - this.#from
  }

  /** The offsets of `length` lines whose bytes move elsewhere now. */
  kept(starts: Int32Array, length: number): SentOffsets {
    return new SentOffsets(this.#from, this.#at, this.#isSent, (this.#lines ?? starts).slice(0, length))
  }

  slice(from: number, to: number): SentOffsets {
    return new SentOffsets(this.#from, this.#at, this.#isSent, this.#lines?.slice(from, to))
  }

  move(from: number, to: number): void {
    if (this.#lines) this.#lines[to] = this.#lines[from]!
  }
}
