import { resized } from '../columns.js'
import { CR, LF } from '../formats/ascii.js'

/**
 * Splits bytes into lines without copying them. The reader requests space, reads into it, and commits what it read. The
 * result is a frame: the complete lines, as ranges of one chunk. The unfinished rest stays in the splitter. The next
 * space follows directly after the rest, in the same chunk while the chunk has room.
 *
 * After a line is complete or flushed, each of its bytes (except a byte order mark) is in exactly one frame, in order,
 * in one line or line end. A line longer than `maxLineBytes` (without its line end) is cut into pieces of at most that
 * many bytes, between UTF-8 characters. The result does not depend on how the bytes were portioned. The work is linear
 * in the number of bytes, even if the portions are small.
 */

import { freeChunk, holdChunk, isMostlyFree, PAGE_BYTES, takeChunk } from './chunk-pool.js'

/** Low bits of a line's flags: the length of its line end in bytes (0: none, 1: LF, 2: CRLF). */
export const LINE_END = 3
/** The line continues in the next event: this is a piece of an over-long line. */
export const PIECE = 4
/** The line began in an earlier event. */
export const CONTINUES = 8

/** Ranges of a chunk: line i is chunk[starts[i], ends[i]), followed by its line end. */
export interface LineColumns {
  readonly length: number
  readonly starts: Int32Array
  readonly ends: Int32Array
  readonly flags: Uint8Array
}

/**
 * Finds the lines in chunk[start, end) that end with an LF. The bytes before `from` contain no LF. The caller owns the
 * columns. Returns undefined if the function cannot search the chunk, or if a line is longer than `longest`.
 */
export type FindLines = (
  chunk: Buffer,
  start: number,
  from: number,
  end: number,
  longest: number,
) => LineColumns | undefined

export interface Frame extends LineColumns {
  readonly chunk: Buffer
  /** Total bytes of all lines with their line ends. */
  readonly bytes: number
  /** Whether each line has a line end, and the next line begins directly after it. Missing: unknown. */
  readonly isRun?: boolean | undefined
  /**
   * The bytes that were read. Set if the lines were made from these bytes and are in another chunk. `starts`: where each
   * line begins in the bytes that were read, if the lines are the same bytes in another order.
   */
  readonly read?: {
    readonly chunk: Buffer
    readonly start: number
    readonly end: number
    readonly starts?: Int32Array
  }
  /** How many of these lines come from unreadable bytes. */
  readonly unreadable?: number
  /** Set if the chunk is reused. Call it once, when the bytes of the frame are no longer needed. */
  readonly release?: (() => void) | undefined
}

/** In a variable, because V8 would otherwise look up the method for each line, which takes as long as the call. */
const { indexOf } = Buffer.prototype
const NO_BYTES = Buffer.alloc(0)
const MARK = Buffer.from('\ufeff')

/** Bytes of the longest UTF-8 character. A piece has room for at least one. */
const LONGEST_CHARACTER = 4

/** The columns of the frame that is being built. All splitters share them, as `commit` and `flush` never yield. */
let starts = new Int32Array(256)
let ends = new Int32Array(256)
let flagsOf = new Uint8Array(256)

function growColumns(): void {
  const length = starts.length * 2
  starts = resized(starts, length)
  ends = resized(ends, length)
  flagsOf = resized(flagsOf, length)
}

/** Smaller portions need no alignment in memory. */
const ALIGNED_BYTES = 64 * 1024

/** Returns the position of the byte at `offset` in its page. `offset` may be negative. */
function inPage(offset: number): number {
  return ((offset % PAGE_BYTES) + PAGE_BYTES) % PAGE_BYTES
}

/** Returns the end of the last line, including its line end; `start` if there are no lines. */
function endOf({ length, ends, flags }: LineColumns, start: number): number {
  return length === 0 ? start : ends[length - 1]! + flags[length - 1]!
}

const NO_LIMIT = 2 ** 31 - 1

/** Returns the lines of `bytes`, which must end with a line end; undefined if there are no lines. */
export function splitLines(bytes: Buffer): Frame | undefined {
  const splitter = new LineSplitter(NO_LIMIT)
  const frame = splitter.push(bytes)
  splitter.drop()
  return frame
}

export class LineSplitter {
  /** Number of pieces of over-long lines so far. The last piece of a line does not count. */
  pieces = 0
  /** Whether the next bytes are the first of a file or stream. A byte order mark there is not part of the line. */
  mayBeMarked = false
  protected readonly maxLineBytes: number
  protected chunk: Buffer = NO_BYTES
  /** The unfinished line is chunk[start, end). Its bytes before `scanned` contain no LF. */
  protected start = 0
  protected end = 0
  protected scanned = 0
  /** Whether the beginning of the unfinished line was already emitted. */
  protected goesOn: boolean
  readonly #findLines: FindLines | undefined
  #length = 0

  /**
   * `continues`: the first byte is in the middle of a line, as in a resumed file. `findLines`: finds lines faster, in
   * the chunks that it can search.
   */
  constructor(maxLineBytes: number, continues = false, findLines?: FindLines) {
    this.maxLineBytes = Math.max(maxLineBytes, LONGEST_CHARACTER)
    this.goesOn = continues
    this.#findLines = findLines
  }

  /** Bytes of the unfinished line. */
  get pending(): number {
    return this.end - this.start
  }

  /** Whether the pending bytes end in the middle of a line. */
  get inLine(): boolean {
    return this.pending > 0
  }

  /** Whether the next event would begin in the middle of a line. */
  get continues(): boolean {
    return this.goesOn
  }

  /** Whether lines wait because another event before them is unfinished. */
  get holdsOthers(): boolean {
    return false
  }

  /** The error after which nothing more can be read. Undefined here, because lines may contain any bytes. */
  get problem(): Error | undefined {
    return undefined
  }

  /** State that another splitter needs to continue at the beginning of the next event; 0 if it needs no state. */
  get carry(): number {
    return 0
  }

  /**
   * Returns space for at least `want` bytes, valid until the next call. `offset`: the position of these bytes in a
   * file. A large portion begins at the same place in a page of memory as in a page of the file, since Linux then
   * copies faster.
   */
  reserve(want: number, offset?: number): Buffer {
    if (this.chunk.length - this.end < want) {
      const pending = this.pending
      const start = offset === undefined || want < ALIGNED_BYTES ? 0 : inPage(offset - pending)
      // At least doubles the size: otherwise each small portion would cost a copy.
      const next = takeChunk(start + pending + Math.max(want, pending))
      this.chunk.copy(next, start, this.start, this.end)
      freeChunk(this.chunk)
      this.scanned += start - this.start
      this.start = start
      this.end = start + pending
      this.chunk = next
    }
    return this.chunk.subarray(this.end)
  }

  /** Takes the first `read` bytes of the space from `reserve`. Returns the lines that these bytes complete, if any. */
  commit(read: number): Frame | undefined {
    this.end += read
    if (this.mayBeMarked) this.skipMark()
    const found = this.#findLines?.(this.chunk, this.start, this.scanned, this.end, this.maxLineBytes)
    const end = found ? endOf(found, this.start) : 0
    if (found && this.end - end <= this.maxLineBytes) return this.#found(found, end)
    const chunk = this.chunk.subarray(0, this.end)
    const from = this.start
    const { pieces } = this
    const most = this.maxLineBytes
    // Does the same as `put` for each line, but keeps the properties of this object in variables.
    let start = from
    let n = this.#length
    let goesOn = this.goesOn
    for (let at = this.scanned, newline; (newline = indexOf.call(chunk, LF, at)) >= 0; at = newline + 1) {
      const end = newline > start && chunk[newline - 1] === CR ? newline - 1 : newline
      if (end - start > most) {
        this.#length = n
        this.start = start
        this.goesOn = goesOn
        this.cutPieces(end)
        n = this.#length
        start = this.start
        goesOn = this.goesOn
      }
      if (n === starts.length) growColumns()
      starts[n] = start
      ends[n] = end
      start = newline + 1
      flagsOf[n++] = goesOn ? (start - end) | CONTINUES : start - end
      goesOn = false
    }
    this.#length = n
    this.start = start
    this.goesOn = goesOn
    this.scanned = this.end
    // A CR at the end is not counted, because it is part of the line end if an LF follows.
    this.cutPieces(this.pending > 0 && chunk[this.end - 1] === CR ? this.end - 1 : this.end)
    return this.frame(from, this.pieces === pieces)
  }

  /** Takes the found lines, up to `end`. Neither these lines nor the unfinished line after them is too long. */
  #found({ length, starts, ends, flags }: LineColumns, end: number): Frame | undefined {
    const from = this.start
    this.scanned = this.end
    if (length === 0) return undefined
    if (this.goesOn) flags[0]! |= CONTINUES
    this.goesOn = false
    this.start = end
    return {
      chunk: this.chunk,
      length,
      starts,
      ends,
      flags,
      bytes: end - from,
      isRun: true,
      release: holdChunk(this.chunk),
    }
  }

  /** Skips a byte order mark. The beginning of a possible mark stays pending. */
  protected skipMark(): void {
    const known = Math.min(this.pending, MARK.length)
    const begins = !this.goesOn && this.chunk.compare(MARK, 0, known, this.start, this.start + known) === 0
    this.mayBeMarked = begins && known < MARK.length
    if (!begins || this.mayBeMarked) return
    this.start += known
    this.scanned = this.start
  }

  /** Copies and commits `bytes`, for streams with their own buffers. `room`: how much space to reserve. */
  push(bytes: Buffer, room = bytes.length): Frame | undefined {
    bytes.copy(this.reserve(room))
    return this.commit(bytes.length)
  }

  /** Emits the unfinished line as an event without a line end. Later bytes continue it. */
  flush(): Frame | undefined {
    if (this.pending === 0) return undefined
    const from = this.start
    this.cutPieces(this.end)
    this.put(this.end, 0)
    this.goesOn = true
    return this.frame(from)
  }

  /** Removes the pending bytes, and returns a copy of them. */
  take(): Buffer {
    const bytes = Buffer.from(this.chunk.subarray(this.start, this.end))
    this.drop()
    this.goesOn = false
    return bytes
  }

  /** Releases the chunk. A small unfinished line moves to a chunk of its own size. A large one stays where it is. */
  release(): void {
    const pending = this.pending
    if (!isMostlyFree(this.chunk, pending)) return
    const next = Buffer.allocUnsafeSlow(pending)
    this.chunk.copy(next, 0, this.start, this.end)
    freeChunk(this.chunk)
    this.scanned -= this.start
    this.start = 0
    this.end = pending
    this.chunk = next
  }

  /** Frees the memory, and discards the unfinished line in it. Nobody may write to the space of `reserve` any more. */
  drop(): void {
    freeChunk(this.chunk)
    this.chunk = NO_BYTES
    this.start = 0
    this.end = 0
    this.scanned = 0
  }

  /** While the line is too long, cuts pieces of maximum size or up to 3 bytes less. The line ends at `to` or later. */
  protected cutPieces(to: number): void {
    while (to - this.start > this.maxLineBytes) {
      let cut = this.start + this.maxLineBytes
      // Never cuts a character: goes back to its first byte, by at most three bytes.
      for (let back = 0; back < 3 && (this.chunk[cut]! & 0xc0) === 0x80; back++) cut--
      if ((this.chunk[cut]! & 0xc0) === 0x80) cut = this.start + this.maxLineBytes
      this.putPiece(cut, 0)
    }
  }

  /** Adds a piece that ends at `end` and continues in the next event. */
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

  protected frame(from: number, isRun = false): Frame | undefined {
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
      isRun,
      release: holdChunk(this.chunk),
    }
  }
}
