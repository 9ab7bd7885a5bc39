import { CR, LF, NINE, SPACE, ZERO } from '../../lib/formats/ascii.js'
import { type Frame, LineSplitter } from '../../lib/lines/line-splitter.js'

/** Divides the bytes of a connection into messages. */
export interface Framer {
  /** Number of pieces made so far from over-long messages, without the last piece of each message. */
  readonly pieces: number
  /** Number of places where a message was not recognized or was cut off. */
  readonly broken: number
  /** Bytes of the unfinished message. */
  readonly pending: number
  /** Why reading cannot continue; undefined if reading can continue. */
  readonly problem?: Error | undefined
  /** Set if the end of the connection cut off the last record. This record is not delivered. */
  readonly cutOff?: Error | undefined
  /**
   * Returns the messages that these bytes complete, if any. May change the bytes in place before it copies them.
   * `room`: memory to reserve, in bytes.
   */
  push(bytes: Buffer, room?: number): Frame | undefined
  /** Returns any unfinished message. `over`: whether the input has ended. If not, later bytes continue the message. */
  flush(over?: boolean): Frame | undefined
  /** Releases memory that is needed only when more data arrives. */
  release(): void
  /** Frees all memory. Do not push afterwards. */
  drop(): void
}

/**
 * Octet counting (RFC 6587): a sequence of `LENGTH SP MESSAGE`. Each message becomes a line. An LF is appended to a
 * message without a line end.
 *
 * Invariants: when a message is complete or flushed, each of its bytes is in exactly one line of one frame, in order.
 * If a length is not recognized, everything up to the next LF is a line. Only line ends between messages are skipped. A
 * message longer than `maxLineBytes` is divided into pieces. The result does not depend on how the input was divided
 * into chunks.
 */

const MOST_DIGITS = 9

export class OctetSplitter extends LineSplitter implements Framer {
  broken = 0
  readonly #tidy: ((chunk: Buffer, start: number, end: number) => void) | undefined
  /** What the next bytes are: a length, the last `#left` bytes of a message or the rest of a line without a length. */
  #state: 'length' | 'message' | 'line' = 'length'
  #digits = ''
  #left = 0

  constructor(maxLineBytes: number, tidy?: (chunk: Buffer, start: number, end: number) => void) {
    super(maxLineBytes)
    this.#tidy = tidy
  }

  override push(bytes: Buffer, room = bytes.length): Frame | undefined {
    // The line end that is added to a message needs no more room than the length prefix, which is removed.
    this.reserve(room + this.#digits.length + 1)
    const from = this.start
    for (let p = 0; p < bytes.length; ) {
      if (this.#state === 'length') p = this.#length(bytes, p)
      else if (this.#state === 'message') p = this.#message(bytes, p)
      else p = this.#line(bytes, p)
    }
    return this.frame(from)
  }

  override flush(over = false): Frame | undefined {
    this.reserve(this.#digits.length + 1)
    const from = this.start
    if (this.#digits !== '') this.#notALength()
    else if (over && this.#state === 'message') this.broken++
    this.cutPieces(this.end)
    if (this.pending > 0) {
      this.put(this.end, 0)
      this.goesOn = true
    }
    return this.frame(from)
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
    this.end += this.chunk.write(this.#digits, this.end)
    this.#digits = ''
    this.#state = 'line'
  }

  #message(bytes: Buffer, p: number): number {
    const taken = bytes.copy(this.chunk, this.end, p, p + this.#left)
    this.#left -= taken
    this.#add(taken, this.#left === 0)
    return p + taken
  }

  #line(bytes: Buffer, p: number): number {
    const newline = bytes.indexOf(LF, p)
    const stop = newline < 0 ? bytes.length : newline + 1
    this.#add(bytes.copy(this.chunk, this.end, p, stop), newline >= 0)
    return stop
  }

  /** The caller copied `bytes` bytes to `chunk`. Adds them to the message. `isLast`: the message is now complete. */
  #add(bytes: number, isLast: boolean): void {
    this.end += bytes
    const isTerminated = this.pending > 0 && this.chunk[this.end - 1] === LF
    const end = isLast && !isTerminated ? this.end : this.#textEnd()
    if (isLast && !isTerminated) this.chunk[this.end++] = LF
    this.cutPieces(end)
    if (!isLast) return
    if (!this.goesOn) this.#tidy?.(this.chunk, this.start, end)
    this.put(end, this.end - end)
    this.#state = 'length'
  }

  #textEnd(): number {
    let end = this.end
    if (end > this.start && this.chunk[end - 1] === LF) end--
    if (end > this.start && this.chunk[end - 1] === CR) end--
    return end
  }
}
