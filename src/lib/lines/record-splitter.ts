/**
 * Joins lines to multi-line events. A `Joiner` decides whether a line belongs to the event before it. An event is the
 * range from the beginning of its first line to the end of its last line. It includes the original line ends between
 * them.
 *
 * In addition to what LineSplitter promises: every line is judged once. The verdict does not depend on the portions.
 * An event is emitted when the next line begins another event, when its last line ends it, or when it is flushed. Until
 * then, the whole event is pending. An over-long event is cut into pieces, between lines if possible. To continue after
 * a frame, a new splitter needs only the carry of the frame, and whether the frame ends in the middle of a line.
 */

import { CR, LF } from '../formats/ascii.js'
import { type Frame, LineSplitter } from './line-splitter.js'

/** A verdict on a line: it begins an event. */
export const BEGINS = 0
/** The line belongs to the event before it if that event is still open. Otherwise it begins an event. */
export const JOINS = 1
/** The line belongs to the event before it, even if that event was already emitted. */
export const BELONGS = 2

/** Maximum bytes of a line that a joiner sees. An unfinished line waits until it has more bytes than this. */
export const JUDGED_BYTES = 4096

/** Decides which lines form one event. Stateless: `judge` returns the state for the next line. */
export interface Joiner {
  /**
   * Judges the line that begins with bytes[start, end). Returns `verdict | state << 2`. `state` is the state from the
   * previous line, 0 at the beginning.
   */
  judge(state: number, bytes: Buffer, start: number, end: number): number
  /** Whether the event ends with the line [start, end). */
  ends?(bytes: Buffer, start: number, end: number): boolean
}

export interface RecordLimits {
  readonly joiner: Joiner
  readonly maxLines: number
  readonly maxBytes: number
}

/** Low bits of the carry, below the joiner's state. OPEN: the next line can belong to an existing event. */
const OPEN = 1
/** The previous line was the last line of a piece, so a line with the verdict JOINS continues the event. */
const CUT = 2

export class RecordSplitter extends LineSplitter {
  readonly #joiner: Joiner
  readonly #maxLines: number
  /** The complete lines of the current event are chunk[start, #line); the last one ends at #lineEnd. */
  #line = 0
  #lineEnd = 0
  #lines = 0
  #judged: boolean
  /** The carries before the unfinished line, after the verdict on this line, and at the start of the current event. */
  #before: number
  #known: number
  #carry: number
  #continues: boolean

  /** `continues` and `carry` come from the splitter that read the bytes before these. */
  constructor({ joiner, maxLines, maxBytes }: RecordLimits, continues = false, carry = 0) {
    super(maxBytes, continues)
    this.#joiner = joiner
    this.#maxLines = maxLines
    this.#judged = continues
    this.#continues = continues
    this.#carry = carry
    this.#before = carry
    this.#known = continues ? carry | OPEN : carry
  }

  override get inLine(): boolean {
    return this.end > this.#line
  }

  override get continues(): boolean {
    return this.#continues
  }

  override get carry(): number {
    return this.#carry
  }

  override reserve(want: number, offset?: number): Buffer {
    const before = this.start
    const room = super.reserve(want, offset)
    this.#moved(before - this.start)
    return room
  }

  override release(): void {
    const before = this.start
    super.release()
    this.#moved(before - this.start)
  }

  override drop(): void {
    const before = this.start
    super.drop()
    this.#moved(before)
  }

  #moved(by: number): void {
    this.#line -= by
    this.#lineEnd -= by
  }

  protected override skipMark(): void {
    super.skipMark()
    this.#line = this.start
  }

  override commit(read: number): Frame | undefined {
    this.end += read
    if (this.mayBeMarked) this.skipMark()
    const chunk = this.chunk.subarray(0, this.end)
    const from = this.start
    for (let newline; (newline = chunk.indexOf(LF, this.scanned)) >= 0; ) {
      const end = newline > this.#line && chunk[newline - 1] === CR ? newline - 1 : newline
      this.#complete(end, newline + 1)
      this.scanned = newline + 1
    }
    this.scanned = this.end
    // A CR at the end may turn out to be part of the line end.
    const to = this.inLine && chunk[this.end - 1] === CR ? this.end - 1 : this.end
    if (to - this.start > this.maxLineBytes) {
      if (!this.#judged && this.end - this.#line > JUDGED_BYTES) this.#judge(this.end)
      if (this.#judged) this.#cut(to)
    }
    return this.frame(from)
  }

  override flush(): Frame | undefined {
    if (this.pending === 0) return undefined
    const from = this.start
    if (this.inLine) {
      if (!this.#judged) this.#judge(this.end)
      this.#cut(this.end)
      this.put(this.end, 0)
      this.goesOn = true
      this.#insideLine()
    } else this.#give()
    return this.frame(from)
  }

  #complete(end: number, next: number): void {
    if (!this.#judged) this.#judge(end)
    this.#cut(end)
    const line = this.#line
    this.#lines++
    this.#lineEnd = end
    this.#line = next
    this.#judged = false
    this.#before = this.#known
    if (!this.#joiner.ends?.(this.chunk, line, end)) return
    this.#known &= ~OPEN
    this.#before = this.#known
    this.#give()
  }

  /** Judges the unfinished line, of which [#line, to) has arrived. */
  #judge(to: number): void {
    const known = this.#known
    const line = this.#line
    const judged = this.#joiner.judge(known >> 2, this.chunk, line, Math.min(to, line + JUDGED_BYTES))
    const verdict = judged & 3
    const waits = line > this.start
    const belongs = known & OPEN && (verdict === BELONGS || (verdict === JOINS && (waits || known & CUT)))
    this.#known = (judged & ~3) | OPEN
    this.#judged = true
    if (!belongs) {
      if (waits) this.#give()
      this.goesOn = false
    } else if (!waits) this.goesOn = true
    else if (this.#lines >= this.#maxLines) this.#givePiece()
  }

  /** Cuts pieces while the event is too long. The event ends at `to` or later, in the unfinished line. */
  #cut(to: number): void {
    if (to - this.start <= this.maxLineBytes) return
    if (this.#line > this.start) this.#givePiece()
    const before = this.start
    this.cutPieces(to)
    if (this.start > before) this.#insideLine()
  }

  /** Emits the complete lines as an event. */
  #give(): void {
    this.put(this.#lineEnd, this.#line - this.#lineEnd)
    this.#atLine()
  }

  #givePiece(): void {
    this.putPiece(this.#lineEnd, this.#line - this.#lineEnd)
    this.#atLine()
    this.#carry |= CUT
  }

  /** Begins the next event with the unfinished line. */
  #atLine(): void {
    this.#lines = 0
    this.#continues = false
    this.#carry = this.#before
  }

  /** Begins the next event inside the unfinished line. */
  #insideLine(): void {
    this.#line = this.start
    this.#lines = 0
    this.#continues = true
    this.#carry = this.#known
  }
}
