/**
 * Where the events of a batch were in the batch that was sent, for a source that reads only the last of them again; and
 * where they were in what was read: so each event can have an id of its own, which it keeps when it is read or sent again.
 */
export class SentOffsets {
  /** Where the batch that was sent began in its chunk. */
  readonly #from: number
  readonly #read: ReadFrom
  /** Where each line was in that chunk, once they are in another one. */
  readonly #lines: Lines | undefined

  constructor(from: number, read: ReadFrom = UNKNOWN, lines?: Lines) {
    this.#from = from
    this.#read = read
    this.#lines = lines
  }

  /** What nothing else that was read has: 16 hexadecimal digits. */
  get reading(): string {
    return this.#read.reading
  }

  /** How many bytes come before event `i`; NaN if it was not sent. `starts`: where lines are now. */
  before(starts: Int32Array, i = 0): number {
    return this.#read.isMade ? Number.NaN : this.#within(starts, i)
  }

  /** The place of event `i` in what was read. */
  place(starts: Int32Array, i: number): number {
    return this.#read.at + this.#within(starts, i)
  }

  #within(starts: Int32Array, i: number): number {
    return (this.#lines ?? starts)[i]! - this.#from
  }

  /** The offsets of `length` lines whose bytes move elsewhere now. */
  kept(starts: Int32Array, length: number): SentOffsets {
    return new SentOffsets(this.#from, this.#read, (this.#lines ?? starts).slice(0, length))
  }

  slice(from: number, to: number): SentOffsets {
    return new SentOffsets(this.#from, this.#read, this.#lines?.slice(from, to))
  }

  select(indices: readonly number[]): SentOffsets {
    const lines = this.#lines
    return new SentOffsets(this.#from, this.#read, lines && Float64Array.from(indices, i => lines[i]!))
  }

  move(from: number, to: number): void {
    if (this.#lines) this.#lines[to] = this.#lines[from]!
  }
}

type Lines = Int32Array | Float64Array

/** Where a batch begins in what was read. */
export interface ReadFrom {
  readonly reading: string
  readonly at: number
  /** Its events were made, not read. */
  readonly isMade?: true
}

const UNKNOWN: ReadFrom = { reading: '', at: 0 }
