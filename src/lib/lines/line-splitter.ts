/**
 * Bytes to lines, without copying them. The reader asks for room, reads into it, and commits what it got; it gets
 * back a frame: the complete lines as ranges of one chunk. The unfinished rest stays in the splitter, and the room
 * given next follows right behind it, in the same chunk while that has space.
 *
 * Invariants: every byte committed is in exactly one line or one line end of exactly one frame, in order, once the
 * line is complete or flushed. A line longer than `maxLineBytes` (without its line end) comes in pieces of at most that
 * many bytes, cut between UTF-8 characters. The result does not depend on the portions that the bytes came in, and the
 * work is linear in the bytes committed, however small the portions.
 */

import { freeChunk, holdChunk, takeChunk } from './chunk-pool.js'

/** Low bits of a line's flags: how many bytes its line end has (0: none, 1: LF, 2: CRLF). */
export const LINE_END = 3
/** The line goes on in the next event: this is a piece of an over-long line. */
export const PIECE = 4
/** The line began in an earlier event. */
export const CONTINUES = 8

/** Lines as ranges of a chunk: line i is chunk[starts[i], ends[i]), its line end follows it. */
export interface Frame {
  readonly chunk: Buffer
  readonly length: number
  readonly starts: Int32Array
  readonly ends: Int32Array
  readonly flags: Uint8Array
  /** Bytes of all lines and their line ends. */
  readonly bytes: number
  /** Where the chunk can be used again: to be called once, when nobody needs the frame's bytes any more. */
  readonly letGo?: (() => void) | undefined
}

const LF = 0x0a
const CR = 0x0d
/** The longest UTF-8 character: a piece has room for one at least. */
const LONGEST_CHARACTER = 4

/** The columns of the frame being made. `commit` and `flush` finish what they begin, so all splitters share them. */
let starts = new Int32Array(256)
let ends = new Int32Array(256)
let flagsOf = new Uint8Array(256)

function growColumns(): void {
  const wider = (old: Int32Array) => {
    const next = new Int32Array(old.length * 2)
    next.set(old)
    return next
  }
  starts = wider(starts)
  ends = wider(ends)
  const flags = new Uint8Array(starts.length)
  flags.set(flagsOf)
  flagsOf = flags
}

export class LineSplitter {
  /** Pieces that over-long lines were cut in so far, without the last ones. */
  pieces = 0
  protected readonly maxLineBytes: number
  protected chunk: Buffer = Buffer.alloc(0)
  /** The unfinished line is chunk[start, end); no LF lies before `scanned`. */
  protected start = 0
  protected end = 0
  protected scanned = 0
  /** Whether the unfinished line's beginning was already given out. */
  protected goesOn: boolean
  #length = 0

  /** `continues`: the first byte to come is in the middle of a line (a resumed file). */
  constructor(maxLineBytes: number, continues = false) {
    this.maxLineBytes = Math.max(maxLineBytes, LONGEST_CHARACTER)
    this.goesOn = continues
  }

  /** Bytes of the unfinished line. */
  get pending(): number {
    return this.end - this.start
  }

  /** Whether what is unfinished ends in the middle of a line. */
  get inLine(): boolean {
    return this.pending > 0
  }

  /** Whether the next event would begin in the middle of a line. */
  get continues(): boolean {
    return this.goesOn
  }

  /** What a splitter that begins where the next event begins has to know of what was before; 0: nothing. */
  get carry(): number {
    return 0
  }

  /** Room for at least `want` bytes. Valid until the next call. */
  reserve(want: number): Buffer {
    if (this.chunk.length - this.end < want) {
      const pending = this.pending
      // At least double, so that small portions cost no copy each.
      const next = takeChunk(pending + Math.max(want, pending))
      this.chunk.copy(next, 0, this.start, this.end)
      freeChunk(this.chunk)
      this.scanned -= this.start
      this.start = 0
      this.end = pending
      this.chunk = next
    }
    return this.chunk.subarray(this.end)
  }

  /** `read` bytes now stand at the beginning of the room: the lines they complete, if any. */
  commit(read: number): Frame | undefined {
    this.end += read
    const chunk = this.chunk.subarray(0, this.end)
    const from = this.start
    for (let newline; (newline = chunk.indexOf(LF, this.scanned)) >= 0; ) {
      const end = newline > this.start && chunk[newline - 1] === CR ? newline - 1 : newline
      if (end - this.start > this.maxLineBytes) this.cutPieces(end)
      this.put(end, newline + 1 - end)
      this.scanned = newline + 1
    }
    this.scanned = this.end
    // A CR at the end may turn out to belong to the line end.
    this.cutPieces(this.pending > 0 && chunk[this.end - 1] === CR ? this.end - 1 : this.end)
    return this.frame(from)
  }

  /** Copies `bytes` in and commits them: for streams that bring buffers of their own. */
  push(bytes: Buffer): Frame | undefined {
    bytes.copy(this.reserve(bytes.length))
    return this.commit(bytes.length)
  }

  /** The unfinished line as it is, as an event without a line end. What follows later continues it. */
  flush(): Frame | undefined {
    if (this.pending === 0) return undefined
    const from = this.start
    this.cutPieces(this.end)
    this.put(this.end, 0)
    this.goesOn = true
    return this.frame(from)
  }

  /** Lets go of the chunk: a small unfinished line moves to a chunk of its own size, a large one keeps its place. */
  release(): void {
    const pending = this.pending
    if (pending * 4 > this.chunk.length) return
    const next = Buffer.allocUnsafeSlow(pending)
    this.chunk.copy(next, 0, this.start, this.end)
    freeChunk(this.chunk)
    this.scanned -= this.start
    this.start = 0
    this.end = pending
    this.chunk = next
  }

  /** Pieces of exactly the largest size while the line, which reaches at least to `to`, is longer than allowed. */
  protected cutPieces(to: number): void {
    while (to - this.start > this.maxLineBytes) {
      let cut = this.start + this.maxLineBytes
      // Not inside a character: back to its first byte, which is at most three before.
      for (let back = 0; back < 3 && (this.chunk[cut]! & 0xc0) === 0x80; back++) cut--
      if ((this.chunk[cut]! & 0xc0) === 0x80) cut = this.start + this.maxLineBytes
      this.putPiece(cut, 0)
    }
  }

  /** What ends at `end` goes on in the next event. */
  protected putPiece(end: number, lineEnd: number): void {
    this.put(end, PIECE | lineEnd)
    this.pieces++
    this.goesOn = true
  }

  protected put(end: number, flags: number): void {
    const i = this.#length++
    if (i === starts.length) growColumns()
    starts[i] = this.start
    ends[i] = end
    flagsOf[i] = this.goesOn ? flags | CONTINUES : flags
    this.goesOn = false
    this.start = end + (flags & LINE_END)
  }

  protected frame(from: number): Frame | undefined {
    const length = this.#length
    if (length === 0) return undefined
    this.#length = 0
    return {
      chunk: this.chunk,
      length,
      starts: starts.slice(0, length),
      ends: ends.slice(0, length),
      flags: flagsOf.slice(0, length),
      bytes: this.start - from,
      letGo: holdChunk(this.chunk),
    }
  }
}
