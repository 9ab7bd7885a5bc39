import { freeChunk, holdChunk, isMostlyFree, takeChunk } from '../../lib/lines/chunk-pool.js'
import { CONTINUES, type Frame, LINE_END, PIECE } from '../../lib/lines/line-splitter.js'
import type { Framer } from './framer.js'

/**
 * Octet counting (RFC 6587): a sequence of `LENGTH SP MESSAGE`. A message becomes a line, terminated by its own line
 * end or by an appended LF.
 *
 * Invariants: once a message is complete or flushed, each of its bytes is in exactly one line of one frame, in order.
 * Without a recognized length, everything up to the next LF is a line; only line ends between messages are skipped. A
 * message longer than `maxLineBytes` is divided into pieces. The result does not depend on how the bytes were
 * portioned.
 */

const LF = 0x0a
const CR = 0x0d
const SPACE = 0x20
const ZERO = 0x30
const NINE = 0x39
const MOST_DIGITS = 9
const LONGEST_CHARACTER = 4

export class OctetSplitter implements Framer {
  pieces = 0
  broken = 0
  readonly #maxLineBytes: number
  readonly #tidy: ((chunk: Buffer, start: number, end: number) => void) | undefined
  /** Reads a length, a message that lacks `#left` bytes, or a line instead of a length. */
  #state: 'length' | 'message' | 'line' = 'length'
  #digits = ''
  #left = 0
  #chunk: Buffer = Buffer.alloc(0)
  /** The unfinished message is chunk[#start, #end). */
  #start = 0
  #end = 0
  #continues = false
  #starts: number[] = []
  #ends: number[] = []
  #flags: number[] = []

  /** `tidy` may change the bytes of a complete message in place; its line end follows them. */
  constructor(maxLineBytes: number, tidy?: (chunk: Buffer, start: number, end: number) => void) {
    this.#maxLineBytes = Math.max(maxLineBytes, LONGEST_CHARACTER)
    this.#tidy = tidy
  }

  get pending(): number {
    return this.#end - this.#start
  }

  push(bytes: Buffer, room = bytes.length): Frame | undefined {
    // The line end added to a message does not take more room than its length prefix.
    this.#reserve(room + this.#digits.length + 1)
    const from = this.#start
    for (let p = 0; p < bytes.length; ) {
      if (this.#state === 'length') p = this.#length(bytes, p)
      else if (this.#state === 'message') p = this.#message(bytes, p)
      else p = this.#line(bytes, p)
    }
    return this.#frame(from)
  }

  flush(over = false): Frame | undefined {
    this.#reserve(this.#digits.length + 1)
    const from = this.#start
    if (this.#digits !== '') this.#notALength()
    else if (over && this.#state === 'message') this.broken++
    this.#cut(this.#end)
    if (this.pending > 0) {
      this.#put(this.#end, 0)
      this.#continues = true
    }
    return this.#frame(from)
  }

  release(): void {
    if (isMostlyFree(this.#chunk, this.pending)) this.#move(this.pending)
  }

  drop(): void {
    freeChunk(this.#chunk)
    this.#chunk = Buffer.alloc(0)
    this.#start = 0
    this.#end = 0
  }

  #reserve(want: number): void {
    if (this.#chunk.length - this.#end < want) this.#move(this.pending + Math.max(want, this.pending))
  }

  #move(size: number): void {
    const next = takeChunk(size)
    this.#end = this.#chunk.copy(next, 0, this.#start, this.#end)
    this.#start = 0
    freeChunk(this.#chunk)
    this.#chunk = next
  }

  #length(bytes: Buffer, p: number): number {
    const byte = bytes[p]!
    const first = this.#digits === ''
    if (byte >= (first ? ZERO + 1 : ZERO) && byte <= NINE && this.#digits.length < MOST_DIGITS) {
      this.#digits += String.fromCharCode(byte)
      return p + 1
    }
    if (first && (byte === LF || byte === CR)) return p + 1
    if (first || byte !== SPACE) {
      this.#notALength()
      return p
    }
    this.#left = Number(this.#digits)
    this.#digits = ''
    this.#state = 'message'
    return p + 1
  }

  #notALength(): void {
    this.broken++
    this.#end += this.#chunk.write(this.#digits, this.#end)
    this.#digits = ''
    this.#state = 'line'
  }

  #message(bytes: Buffer, p: number): number {
    const taken = bytes.copy(this.#chunk, this.#end, p, p + this.#left)
    this.#end += taken
    this.#left -= taken
    if (this.#left === 0) this.#finish()
    else this.#cut(this.#textEnd())
    return p + taken
  }

  #line(bytes: Buffer, p: number): number {
    const newline = bytes.indexOf(LF, p)
    const stop = newline < 0 ? bytes.length : newline + 1
    this.#end += bytes.copy(this.#chunk, this.#end, p, stop)
    if (newline >= 0) this.#finish()
    else this.#cut(this.#textEnd())
    return stop
  }

  /** The end of the message so far, without its line end. */
  #textEnd(): number {
    let end = this.#end
    if (end > this.#start && this.#chunk[end - 1] === LF) end--
    if (end > this.#start && this.#chunk[end - 1] === CR) end--
    return end
  }

  #finish(): void {
    const terminated = this.pending > 0 && this.#chunk[this.#end - 1] === LF
    const end = terminated ? this.#textEnd() : this.#end
    if (!terminated) this.#chunk[this.#end++] = LF
    this.#cut(end)
    if (!this.#continues) this.#tidy?.(this.#chunk, this.#start, end)
    this.#put(end, this.#end - end)
    this.#state = 'length'
  }

  #cut(to: number): void {
    while (to - this.#start > this.#maxLineBytes) {
      const most = this.#start + this.#maxLineBytes
      let cut = most
      // Do not divide a character: go back to its first byte.
      while (cut > most - LONGEST_CHARACTER && (this.#chunk[cut]! & 0xc0) === 0x80) cut--
      if (cut === most - LONGEST_CHARACTER) cut = most
      this.#put(cut, PIECE)
      this.pieces++
      this.#continues = true
    }
  }

  #put(end: number, flags: number): void {
    this.#starts.push(this.#start)
    this.#ends.push(end)
    this.#flags.push(this.#continues ? flags | CONTINUES : flags)
    this.#continues = false
    this.#start = end + (flags & LINE_END)
  }

  #frame(from: number): Frame | undefined {
    const length = this.#starts.length
    if (length === 0) return undefined
    const frame: Frame = {
      chunk: this.#chunk,
      length,
      starts: Int32Array.from(this.#starts),
      ends: Int32Array.from(this.#ends),
      flags: Uint8Array.from(this.#flags),
      bytes: this.#start - from,
      release: holdChunk(this.#chunk),
    }
    this.#starts = []
    this.#ends = []
    this.#flags = []
    return frame
  }
}
