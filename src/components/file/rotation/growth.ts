import type { Clock } from '../../../lib/time.js'
import { Checks } from '../checks.js'
import { FINGERPRINT_BYTES, type Fingerprint, fingerprint } from '../identity.js'
import type { Mark } from './match.js'

/** C stdio, Python, Java, Go and others write full buffers. The sizes of all of their buffers are multiples of this. */
const BLOCK_BYTES = 1024
/** Growth with shorter pauses counts as one write, because a large write may be seen before it is complete. */
const BURST_MS = 1000

const LF = 0x0a
const CR = 0x0d

/** A copy of fewer bytes is recognized if it ends where a line or a read ended; from here on by marks, each twice as far. */
export const FIRST_MARK = 2 * FINGERPRINT_BYTES

/**
 * Some places up to which a file was read. By them, a file that is shorter than what was read is recognized as a copy of
 * its beginning.
 */
export class Trail {
  readonly #marks: Mark[]

  constructor(marks: readonly Mark[] = []) {
    this.#marks = [...marks]
  }

  get marks(): readonly Mark[] {
    return this.#marks
  }

  /** Registers the first bytes of a file of which nothing was read. */
  begin(first: Buffer): void {
    const tailAt = (offset: number) => fingerprint(first, Math.max(0, offset - FINGERPRINT_BYTES), offset)
    this.add(0, first.length, first, tailAt)
  }

  /** Registers what was read from `at` to `end`. `tailAt`: the fingerprint of the bytes before an offset in it. */
  add(at: number, end: number, bytes: Buffer, tailAt: (offset: number) => Fingerprint): void {
    let from = this.#marks.at(-1)?.offset ?? 0
    const mark = (offset: number) => {
      const tail = tailAt(offset)
      // Less of it is known if a position within a batch was restored.
      if (tail.bytes === Math.min(offset, FINGERPRINT_BYTES)) this.#marks.push({ offset, tail })
    }
    while (from < end && at < FIRST_MARK) {
      const lf = bytes.indexOf(LF, Math.max(0, from - at))
      const next = lf === -1 ? end : at + lf + 1
      if (next >= FIRST_MARK) break
      from = next
      mark(from)
    }
    for (let offset = FIRST_MARK; offset <= end; offset *= 2) if (offset > from && offset > at) mark(offset)
  }

  /** The last place in the first `size` bytes, if it proves that a file of this size has only these. */
  within(size: number): Mark | undefined {
    const mark = this.#marks.findLast(({ offset }) => offset <= size)
    return mark && (mark.offset === size || mark.offset >= FIRST_MARK) ? mark : undefined
  }

  /** Those that are saved for a file read up to `end`: of a large one, not the ends of its first lines. */
  saved(end: number): readonly Mark[] {
    return this.#marks.filter(({ offset }) => offset < end && (offset >= FIRST_MARK || end < 4 * FIRST_MARK))
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
  readonly trail: Trail
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
  constructor(clock: Clock, offset: number, marks: readonly Mark[] = []) {
    this.trail = new Trail(marks)
    this.#clock = clock
    this.checks = new Checks(clock)
    this.#at = clock.now()
    this.#end = offset
    this.#rested = offset
    this.#burst = offset
  }

  get at(): number {
    return this.#at
  }

  /** Whether the writer may be within a line although it is quiet. */
  get mayPauseInLine(): boolean {
    return this.#inBlocks || this.#pausesInLines
  }

  /** Registers a read up to `end`; `first` is the first byte. */
  read(end: number, first: number): void {
    if (end <= this.#end) return
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
