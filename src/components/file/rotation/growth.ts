import type { Clock } from '../../../lib/time.js'
import { Checks } from '../checks.js'
import { FINGERPRINT_BYTES, type Fingerprint, fingerprint } from '../identity.js'
import type { Mark } from './match.js'

const LF = 0x0a

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

/** When a file grew, as far as it was read, and what is known of it since. */
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

  /** `offset`: where reading begins. */
  constructor(clock: Clock, offset: number, marks: readonly Mark[] = []) {
    this.trail = new Trail(marks)
    this.#clock = clock
    this.checks = new Checks(clock)
    this.#at = clock.now()
    this.#end = offset
  }

  get at(): number {
    return this.#at
  }

  /** Registers a read up to `end`. */
  read(end: number): void {
    if (end <= this.#end) return
    this.#end = end
    this.#at = this.#clock.now()
  }
}
