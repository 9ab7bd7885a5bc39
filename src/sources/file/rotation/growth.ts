import type { Clock } from '../../../lib/time.js'

/** C stdio, Python, Java, Go and others write a full buffer at a time. All of their buffers are multiples of this. */
const BLOCK_BYTES = 1024
/** Growth with shorter pauses between is taken together: a large write can be seen before it is complete. */
const BURST_MS = 1000

const LF = 0x0a
const CR = 0x0d

/**
 * When and how one file grew, as far as it was read. It recognizes writers that pause in the middle of a line: those
 * that write full buffers, and those that continued a line after it was delivered unfinished.
 */
export class Growth {
  /** What was unfinished at the end of the file, at `at`, was given up to save memory or a descriptor. */
  parked: { readonly at: number; readonly inLine: boolean } | undefined
  readonly #clock: Clock
  /** When the last new byte was read, on the monotonic clock. */
  #at: number
  /** Up to where the file was ever read. */
  #end: number
  /** The end of the file when it was last reached, and at the beginning of the burst. */
  #rested: number
  #burst: number
  #restedAt = Number.NEGATIVE_INFINITY
  #inBlocks = false
  #wasCut = false
  #pausesInLines = false

  constructor(clock: Clock, offset: number) {
    this.#clock = clock
    this.#at = clock.now()
    this.#end = offset
    this.#rested = offset
    this.#burst = offset
  }

  get at(): number {
    return this.#at
  }

  /** Whether the writer may be in the middle of a line though it has been quiet. */
  get mayPauseInLine(): boolean {
    return this.#inBlocks || this.#pausesInLines
  }

  /** The bytes up to `end` were read; `first` is the first of them. */
  read(end: number, first: number): void {
    if (end <= this.#end) return
    // A line end that comes late, or before the next line, ends a line that was whole.
    if (this.#wasCut && first !== LF && first !== CR) this.#pausesInLines = true
    this.#wasCut = false
    this.#end = end
    this.#at = this.#clock.now()
  }

  /** The end of the file was reached. */
  rest(end: number): void {
    const grown = end - this.#rested
    if (grown <= 0) return
    const now = this.#clock.now()
    if (now - this.#restedAt > BURST_MS) this.#burst = this.#rested
    this.#inBlocks = [end, grown, end - this.#burst].some(bytes => bytes % BLOCK_BYTES === 0)
    this.#rested = end
    this.#restedAt = now
  }

  /** What was read of an unfinished line was delivered. */
  cut(): void {
    this.#wasCut = true
  }
}
