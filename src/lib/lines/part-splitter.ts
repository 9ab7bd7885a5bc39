/**
 * Joins the parts of lines that a container runtime has divided. The parts of two streams may interleave in a file.
 * While a stream has an unfinished event, all lines after its first part are held. So a position between two frames is
 * never within an event of either stream. Then all held events are emitted, in the order of their first parts. If the
 * events interleave, the frame is a copy in which each event is one range.
 *
 * An event of more than `maxLineBytes` is cut into pieces, between its parts if possible. Held lines of more than twice
 * as many bytes, or of more than `maxLines` lines, are emitted, too. The next part of an unfinished event is then
 * marked as its continuation. To continue after a frame, a new splitter needs only the carry of the frame, and whether
 * the frame ends in the middle of a line.
 */

import { CR, LF } from '../formats/ascii.js'
import { freeChunk, holdChunk, takeChunk } from './chunk-pool.js'
import { type Frame, LineSplitter } from './line-splitter.js'

/** The event of the stream does not end with this line. */
export const PART = 4
const STREAM = 3

/**
 * Returns the stream of the line [start, end): 1 or 2, plus PART if the event continues in the next line of the stream.
 * Returns 0 if the line belongs to no stream.
 */
export type ReadPart = (bytes: Buffer, start: number, end: number) => number

/** The low bits of the carry are set if there are streams above them. Earlier versions used them in other ways, too. */
const CUT = 2
const STREAMS_SHIFT = 2

interface HeldEvent {
  readonly stream: number
  /** Start and end of each line in the chunk. */
  readonly lines: number[]
  bytes: number
  lineEnd: number
}

const { indexOf } = Buffer.prototype

export class PartSplitter extends LineSplitter {
  readonly #read: ReadPart
  readonly #maxLines: number
  /** The held lines are chunk[start, start + #held). `#lines` has the length, line end and part of each line. */
  #held = 0
  #lines: number[] = []
  /** The held bytes of the unfinished event of each stream. */
  readonly #sizes = [0, 0, 0]
  /** The streams with an unfinished event that is held, as bits. */
  #open = 0
  /** The streams with an unfinished event of which all parts so far were emitted, as bits. */
  #cut: number
  /** The ranges of the frame that are elsewhere in its copy: start, end, new start. */
  #moves: number[] = []

  constructor(read: ReadPart, maxLines: number, maxBytes: number, continues = false, carry = 0) {
    super(maxBytes, continues)
    this.#read = read
    this.#maxLines = maxLines
    this.#cut = carry & CUT ? (carry >> STREAMS_SHIFT) & STREAM : 0
  }

  override get inLine(): boolean {
    return this.pending > this.#held
  }

  override get carry(): number {
    return this.#cut === 0 ? 0 : CUT | (this.#cut << STREAMS_SHIFT)
  }

  override get holdsOthers(): boolean {
    const lines = this.#lines
    return lines.length > 3 && lines.some((part, i) => i % 3 === 2 && (part & STREAM) !== (lines[2]! & STREAM))
  }

  override drop(): void {
    super.drop()
    this.#forget()
  }

  #forget(): void {
    this.#held = 0
    this.#open = 0
    this.#lines = []
    this.#sizes.fill(0)
  }

  override commit(read: number): Frame | undefined {
    this.end += read
    if (this.mayBeMarked) this.skipMark()
    const chunk = this.chunk.subarray(0, this.end)
    const from = this.start
    for (let at = this.scanned, newline; (newline = indexOf.call(chunk, LF, at)) >= 0; at = newline + 1) {
      const end = newline > this.start + this.#held && chunk[newline - 1] === CR ? newline - 1 : newline
      this.#complete(end, newline + 1)
    }
    this.scanned = this.end
    // A CR at the end may turn out to be part of the line end.
    this.#cutLine(this.inLine && chunk[this.end - 1] === CR ? this.end - 1 : this.end)
    return this.frame(from)
  }

  override flush(): Frame | undefined {
    if (this.pending === 0) return undefined
    const from = this.start
    this.#give(false)
    if (this.pending > 0) {
      this.#begin(this.#read(this.chunk, this.start, this.end) & STREAM)
      this.put(this.end, 0)
      this.goesOn = true
    }
    return this.frame(from)
  }

  #complete(end: number, next: number): void {
    this.#cutLine(end)
    const line = this.start + this.#held
    const part = this.#read(this.chunk, line, end)
    const stream = part & STREAM
    if (this.#held > 0) {
      const size = end - line
      const own = this.#sizes[stream]!
      const isLong = (own > 0 && own + size > this.maxLineBytes) || this.#held + size > 2 * this.maxLineBytes
      if (isLong || this.#lines.length >= 3 * this.#maxLines) this.#give(true)
    }
    if (this.#held === 0 && part < PART) {
      if (this.#cut !== 0) this.#begin(stream)
      this.put(end, next - end)
      return
    }
    this.#lines.push(next - line, next - end, part)
    this.#held += next - line
    if (part < PART) {
      this.#sizes[stream] = 0
      this.#open &= ~stream
    } else {
      this.#sizes[stream]! += next - line
      this.#open |= stream
    }
    if (this.#open === 0) this.#give(true)
  }

  /** Cuts pieces from the line after the held lines while it is too long. The line ends at `to` or later. */
  #cutLine(to: number): void {
    const line = this.start + this.#held
    if (to - line <= this.maxLineBytes) return
    this.#give(true)
    this.#begin(this.#read(this.chunk, line, line + this.maxLineBytes) & STREAM)
    this.cutPieces(to)
  }

  /** Begins the next event. It may continue an event of the stream. */
  #begin(stream: number): void {
    if (this.#cut & stream) this.goesOn = true
    this.#cut &= ~stream
  }

  /** Emits the held lines. `isCut`: whether unfinished events continue in later lines. */
  #give(isCut: boolean): void {
    if (this.#held === 0) return
    const events: HeldEvent[] = []
    const open: (HeldEvent | undefined)[] = []
    let isMixed = false
    for (let i = 0, at = this.start; i < this.#lines.length; i += 3) {
      const [bytes, lineEnd, part] = [this.#lines[i]!, this.#lines[i + 1]!, this.#lines[i + 2]!]
      const stream = part & STREAM
      let event = open[stream]
      if (!event) events.push((event = { stream, lines: [], bytes: 0, lineEnd }))
      isMixed ||= event !== events.at(-1)
      event.lines.push(at, (at += bytes))
      event.bytes += bytes
      event.lineEnd = lineEnd
      open[stream] = part < PART ? undefined : event
    }
    this.#forget()
    for (const event of events) {
      const { stream, lines, bytes, lineEnd } = event
      if (isMixed)
        for (let i = 0, at = this.start; i < lines.length; i += 2) at = this.#move(lines[i]!, lines[i + 1]!, at)
      this.#begin(stream)
      const end = this.start + bytes - lineEnd
      if (isCut && open[stream] === event) {
        this.putPiece(end, lineEnd)
        this.goesOn = false
        this.#cut |= stream
      } else this.put(end, lineEnd)
    }
  }

  #move(from: number, end: number, to: number): number {
    this.#moves.push(from, end, to)
    return to + end - from
  }

  protected override frame(from: number): Frame | undefined {
    const frame = super.frame(from)
    const moves = this.#moves
    if (!frame || moves.length === 0) return frame
    this.#moves = []
    const { chunk } = frame
    const copy = takeChunk(this.start)
    chunk.copy(copy, from, from, this.start)
    const places = new Map<number, number>()
    for (let i = 0; i < moves.length; i += 3) {
      const [start, end, to] = [moves[i]!, moves[i + 1]!, moves[i + 2]!]
      chunk.copy(copy, to, start, end)
      places.set(to, start)
    }
    frame.release?.()
    const release = holdChunk(copy)
    freeChunk(copy)
    const starts = frame.starts.map(start => places.get(start) ?? start)
    return { ...frame, chunk: copy, release, read: { chunk, start: from, end: this.start, starts } }
  }
}
