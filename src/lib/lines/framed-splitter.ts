/**
 * Divides bytes into records that are not lines, and makes each record a line. The line is the JSON of the record or,
 * if the record cannot be read, its content in base64. Frames consist of these lines. An unfinished record stays in the
 * splitter.
 *
 * The result does not depend on how the bytes were portioned, and the work is linear in the number of bytes. A record
 * above the maximum size is skipped and reported. Reading ends at bytes that are not a record. They stay pending, and
 * `reserve` and `release` then throw.
 */

import { isUtf8 } from 'node:buffer'
import { GrowingBytes } from '../formats/growing-bytes.js'
import { freeChunk, holdChunk, takeChunk } from './chunk-pool.js'
import { type Frame, LineSplitter } from './line-splitter.js'

/** The bytes at `at` are not a record. */
export class FramingError extends Error {
  readonly code = 'SLUICE_FRAMING'
  readonly at: number

  constructor(message: string, at: number) {
    super(message)
    this.at = at
  }
}

export interface RecordScanner {
  /**
   * Scans the current record from `p` to `to`, after the bytes already scanned. Returns the end of the record. If the
   * record is incomplete, returns ~q; the next call continues at `q`. Throws a FramingError with a place in `b`.
   */
  find(b: Buffer, p: number, to: number): number
}

export interface Framing {
  /** Whether all bytes together are one record. Only a source that knows where the bytes end can read such a record. */
  readonly isWhole?: boolean
  scanner(): RecordScanner
  /** Returns how many bytes of a complete record precede its content, such as its length. Default: 0. */
  headSize?(b: Buffer, start: number, end: number): number
  /** Adds the JSON object of a record's content. If the content cannot be read, returns false and adds nothing. */
  readRecord(b: Buffer, start: number, end: number, to: GrowingBytes): boolean
}

const LF = 0x0a
/** A record also counts as too long if its JSON is longer than this many times the maximum size. */
const MOST_GROWTH = 8
/** Maximum memory for lines that is kept for reuse. */
const MOST_KEPT_BYTES = 8 * 1024 * 1024

/** The lines of the frame that is being built. `commit` never yields, so all splitters share them. */
const lines = new GrowingBytes()
/** How many of these lines come from unreadable records. */
let unreadable = 0

export class FramedSplitter extends LineSplitter {
  readonly #framing: Framing
  readonly #scanner: RecordScanner
  readonly #onSkipped: () => void
  /** Whether the unfinished record is too long. */
  #skips = false
  /** Where `start` is in the stream. */
  #offset: number
  #problem: FramingError | undefined

  /** `onSkipped` is called for each record that is too long. `offset`: the position of the first byte, for errors. */
  constructor(framing: Framing, maxBytes: number, onSkipped: () => void = () => {}, offset = 0) {
    super(maxBytes)
    this.#framing = framing
    this.#scanner = framing.scanner()
    this.#onSkipped = onSkipped
    this.#offset = offset
  }

  override get problem(): FramingError | undefined {
    return this.#problem
  }

  get place(): number {
    return this.#offset
  }

  override reserve(want: number, offset?: number): Buffer {
    if (this.#problem) throw this.#problem
    if (this.start === this.end) {
      this.start = 0
      this.end = 0
      this.scanned = 0
    }
    return super.reserve(want, offset)
  }

  override commit(read: number): Frame | undefined {
    this.end += read
    const from = this.start
    lines.clear()
    unreadable = 0
    let count = 0
    for (let end = this.#next(); end >= 0; end = this.#next()) {
      if (!this.#skips) {
        if (end - this.start <= this.maxLineBytes && this.#addLine(end)) count++
        else this.#onSkipped()
      }
      this.#skips = false
      this.#goTo(end)
    }
    return count === 0 ? undefined : frameOf(count, { chunk: this.chunk, start: from, end: this.start })
  }

  override release(): void {
    super.release()
    if (this.#problem) throw this.#problem
  }

  /** Delivers nothing, since a record that has not ended cannot be read. */
  override flush(): undefined {}

  /** Skips the unfinished record, to release its memory. */
  skip(): void {
    if (this.#skips || this.pending === 0 || this.#problem) return
    this.#skips = true
    this.#onSkipped()
    this.#goTo(this.scanned)
  }

  /** Returns the end of the next record; -1: it is incomplete, or the bytes are not a record. */
  #next(): number {
    if (this.#problem || this.scanned === this.end) return -1
    try {
      const found = this.#scanner.find(this.chunk, this.scanned, this.end)
      this.scanned = found < 0 ? ~found : found
      if (found >= 0) return found
    } catch (error) {
      if (!(error instanceof FramingError)) throw error
      const at = this.#offset + error.at - this.start
      this.#problem = new FramingError(`byte ${at}: ${error.message}`, at)
      return -1
    }
    if (!this.#skips && this.pending > this.maxLineBytes) {
      this.#skips = true
      this.#onSkipped()
    }
    if (this.#skips) this.#goTo(this.scanned)
    return -1
  }

  #goTo(end: number): void {
    this.#offset += end - this.start
    this.start = end
  }

  /** Adds the line of the record that ends at `end`. Returns false if the line would be too long. */
  #addLine(end: number): boolean {
    const { chunk } = this
    const start = this.start + (this.#framing.headSize?.(chunk, this.start, end) ?? 0)
    const before = lines.length
    const isRead = this.#framing.readRecord(chunk, start, end, lines)
    if (!isRead) lines.addText(chunk.toString('base64', start, end))
    lines.addByte(LF)
    if (lines.length - before > this.maxLineBytes * MOST_GROWTH) {
      lines.length = before
      return false
    }
    if (!isRead) unreadable++
    return true
  }
}

/** Throws a FramingError if `b` does not consist of whole records. */
export function checkRecords(framing: Framing, b: Buffer): void {
  const scanner = framing.scanner()
  for (let p = 0; p < b.length; ) {
    const end = scanner.find(b, p, b.length)
    if (end < 0) throw new FramingError('the last record does not end', p)
    p = end
  }
}

/** Replaces invalid UTF-8 from `from` on, because texts of records may contain invalid bytes. */
export function makeValid(json: GrowingBytes, from = 0): void {
  const bytes = json.bytes.subarray(from, json.length)
  if (isUtf8(bytes)) return
  const text = bytes.toString()
  json.length = from
  json.addText(text)
}

function frameOf(length: number, read: NonNullable<Frame['read']>): Frame {
  makeValid(lines)
  const bytes = lines.length
  const chunk = takeChunk(bytes)
  lines.bytes.copy(chunk, 0, 0, bytes)
  if (lines.bytes.length > MOST_KEPT_BYTES) lines.release()
  const release = holdChunk(chunk)
  freeChunk(chunk)
  const [starts, ends] = [new Int32Array(length), new Int32Array(length)]
  for (let i = 0, at = 0; i < length; i++) {
    starts[i] = at
    ends[i] = chunk.indexOf(LF, at)
    at = ends[i]! + 1
  }
  return { chunk, length, starts, ends, flags: new Uint8Array(length).fill(1), bytes, release, read, unreadable }
}
