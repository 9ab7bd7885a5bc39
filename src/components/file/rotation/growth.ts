import { crc32 } from 'node:zlib'
import type { Clock } from '../../../lib/time.js'
import { Checks } from '../checks.js'
import { FINGERPRINT_BYTES, type Fingerprint } from '../identity.js'

/** C stdio, Python, Java, Go and others write full buffers. The sizes of all of their buffers are multiples of this. */
const BLOCK_BYTES = 1024
/** Growth with shorter pauses counts as one write, because a large write may be seen before it is complete. */
const BURST_MS = 1000

const LF = 0x0a
const CR = 0x0d

/** Up to here a copy of the beginning of a file is compared whole; from here on by marks, each twice as far. */
export const FIRST_MARK = 2 * FINGERPRINT_BYTES

/** A place in a file, and the fingerprint of the bytes before it. */
export interface Mark {
  readonly offset: number
  readonly tail: Fingerprint
}

/**
 * Some places up to which a file was read, each at least twice as far as the one before. By them, a file that is shorter
 * than what was read is recognized as a copy of its beginning. Of the first bytes, all ends of lines are known.
 */
export class Trail {
  readonly #marks: Mark[] = []
  /** Of the first bytes: where a line or a read ended, and the hash of all bytes before. */
  readonly #ends: number[] = []
  readonly #hashes: number[] = []

  /**
   * Registers bytes from `at` on, which may have been registered before. Bytes of a file that was not read from its
   * beginning are ignored.
   */
  begin(bytes: Buffer, at: number): void {
    const end = this.#ends.at(-1) ?? 0
    if (at > end) return
    const length = Math.min(bytes.length, FIRST_MARK - at)
    for (let from = end - at, to: number; from < length; from = to) {
      const lf = bytes.indexOf(LF, from)
      to = lf === -1 || lf >= length ? length : lf + 1
      this.#hashes.push(crc32(bytes.subarray(from, to), this.#hashes.at(-1)))
      this.#ends.push(at + to)
    }
  }

  /** Whether what was read began with `size` bytes of this hash, all of which are known. */
  began(size: number, hash: number): boolean {
    const known = this.#ends.indexOf(size)
    return known !== -1 && this.#hashes[known] === hash
  }

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
