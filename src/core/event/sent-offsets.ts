/**
 * Two places of each event: its place in the batch as it was sent, and its place in the input. The first lets a source
 * reread only the batch's last events. The second identifies an event, so that the event keeps its id when it is read
 * or sent again.
 */
export class SentOffsets {
  /** Where the batch began in its chunk when it was sent. */
  readonly #from: number
  readonly #read: ReadFrom
  /** The position of each line in the chunk of the sent batch. Set if the lines were moved to another chunk. */
  readonly #lines: Lines | undefined

  constructor(from: number, read: ReadFrom = UNKNOWN, lines?: Lines) {
    this.#from = from
    this.#read = read
    this.#lines = lines
  }

  /** Unique id of the input: 16 hexadecimal digits. */
  get reading(): string {
    return this.#read.reading
  }

  /**
   * Returns the number of bytes before event `i` in the sent batch; NaN if a component made the event. `starts`: the
   * current positions of the lines.
   */
  before(starts: Int32Array, i = 0): number {
    return this.#read.isMade ? Number.NaN : this.#within(starts, i)
  }

  place(starts: Int32Array, i: number): number {
    return this.#read.at + this.#within(starts, i)
  }

  /** Whether a multiple of `step` lies in the range from the place of the first event to the end of event `last`. */
  covers(step: number, starts: Int32Array, last: number, size: number): boolean {
    const lines = this.#lines ?? starts
    const at = this.#read.at - this.#from
    return Math.ceil((at + lines[0]!) / step) * step < at + lines[last]! + size
  }

  #within(starts: Int32Array, i: number): number {
    return (this.#lines ?? starts)[i]! - this.#from
  }

  /** Returns a copy that keeps the positions of `length` lines. Call it before the lines move to another chunk. */
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

/** Position of a batch in its input. */
export interface ReadFrom {
  readonly reading: string
  readonly at: number
  /** The position of each line in the bytes that were read, if the lines are in another order. */
  readonly lines?: Lines
  /** A component made the batch's events instead of reading them. */
  readonly isMade?: true
}

const UNKNOWN: ReadFrom = { reading: '', at: 0 }
