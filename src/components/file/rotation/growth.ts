import type { Clock } from '../../../lib/time.js'
import { Checks } from '../checks.js'
import type { Fingerprint } from '../identity.js'

/** C stdio, Python, Java, Go and others write full buffers. The sizes of all of their buffers are multiples of this. */
const BLOCK_BYTES = 1024
/** Growth with shorter pauses counts as one write, because a large write may be seen before it is complete. */
const BURST_MS = 1000

const LF = 0x0a
const CR = 0x0d

/** A place in a file, and the fingerprint of the bytes before it. */
export interface Mark {
  readonly offset: number
  readonly tail: Fingerprint
}

/**
 * Some places up to which a file was read, each at least twice as far as the one before. By them, a file that is shorter
 * than what was read is recognized as a copy of its beginning.
 */
export class Trail {
  readonly #marks: Mark[] = []

  add(offset: number, tail: Fingerprint): void {
    const last = this.#marks.at(-1)
    if (!last || offset >= 2 * last.offset) this.#marks.push({ offset, tail })
  }

  /** The last of these places in the first `size` bytes. */
  within(size: number): Mark | undefined {
    return this.#marks.findLast(({ offset }) => offset <= size)
  }
}

/**
 * Tracks when and how a file grew, as far as it was read. Detects writers that pause within a line: those that write
 * full buffers, and those that continued a line after it was delivered unfinished.
 */
export class Growth {
  /** The unfinished part of the file, from `at` on, was dropped to save memory or a descriptor. */
  parked: { readonly at: number; readonly inLine: boolean } | undefined
  /** Checks of its size, other than by reading. */
  readonly checks: Checks
  readonly trail = new Trail()
  readonly #clock: Clock
  /** When the last new byte was read, on the monotonic clock. */
  #at: number
  /** The largest offset ever read. */
  #end: number
  /** The end of the file when it was last reached, and at the beginning of the burst. */
  #rested: number
  #burst: number
  #restedAt = Number.NEGATIVE_INFINITY
  #inBlocks = false
  #wasCut = false
  #pausesInLines = false

  /** `start`: where reading begins. */
  constructor(clock: Clock, { offset, tail }: Mark) {
    this.#clock = clock
    this.checks = new Checks(clock)
    this.#at = clock.now()
    this.#end = offset
    this.#rested = offset
    this.#burst = offset
    if (offset > 0) this.trail.add(offset, tail)
  }

  get at(): number {
    return this.#at
  }

  /** Whether the writer may be within a line although it is quiet. */
  get mayPauseInLine(): boolean {
    return this.#inBlocks || this.#pausesInLines
  }

  /** Registers a read up to `end`; `first` is the first byte, and `tail` the fingerprint of the last ones. */
  read(end: number, first: number, tail: Fingerprint): void {
    if (end <= this.#end) return
    this.trail.add(end, tail)
    // If the next byte is a line end, the delivered line was complete.
    if (this.#wasCut && first !== LF && first !== CR) this.#pausesInLines = true
    this.#wasCut = false
    this.#end = end
    this.#at = this.#clock.now()
  }

  /** Registers that the end of the file was reached. */
  rest(end: number): void {
    const grown = end - this.#rested
    if (grown <= 0) return
    const now = this.#clock.now()
    if (now - this.#restedAt > BURST_MS) this.#burst = this.#rested
    this.#inBlocks = [end, grown, end - this.#burst].some(bytes => bytes % BLOCK_BYTES === 0)
    this.#rested = end
    this.#restedAt = now
  }

  /** Registers that an unfinished line was delivered. */
  cut(): void {
    this.#wasCut = true
  }
}
