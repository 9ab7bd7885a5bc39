import { BACKSLASH, QUOTE } from './ascii.js'
import { type ByteSink, escapeInto, MOST_ESCAPED, writeBytes } from './json-string.js'

const FIRST_BYTES = 1024
/** If a sink receives at least this many bytes in a call, it may keep a slice instead of a copy. */
const KEPT_FROM = 16 * 1024

/** Texts are escaped in parts of this many bytes, after making room. */
const ESCAPED_AT_ONCE = 2048

/** Appends bytes to memory that grows, and that is reused after `clear`. */
export class GrowingBytes implements ByteSink {
  bytes: Buffer
  length = 0

  /** `room`: the expected number of bytes. */
  constructor(room = FIRST_BYTES) {
    this.bytes = Buffer.allocUnsafeSlow(room)
  }

  clear(): void {
    this.length = 0
  }

  add(b: Buffer, start: number, end: number): void {
    this.reserve(end - start)
    this.length = writeBytes(b, start, end, this.bytes, this.length)
  }

  release(): void {
    this.bytes = Buffer.allocUnsafeSlow(FIRST_BYTES)
    this.length = 0
  }

  /** Passes all bytes to `to` and clears the memory. If `to` may keep a slice of it, continues with new memory. */
  giveTo(to: ByteSink): void {
    to.add(this.bytes, 0, this.length)
    if (this.length >= KEPT_FROM) this.bytes = Buffer.allocUnsafeSlow(this.bytes.length)
    this.length = 0
  }

  addByte(byte: number): void {
    this.reserve(1)
    this.bytes[this.length++] = byte
  }

  addEscaped(b: Buffer, start: number, end: number): void {
    for (let from = start; from < end; from += ESCAPED_AT_ONCE) {
      const to = Math.min(from + ESCAPED_AT_ONCE, end)
      this.reserve((to - from) * MOST_ESCAPED)
      this.length = escapeInto(this.bytes, this.length, b, from, to)
    }
  }

  addText(text: string): void {
    this.reserve(text.length * 3)
    this.length += this.bytes.write(text, this.length)
  }

  /** Whether the JSON value from `start` on is a string with escapes. */
  hasEscape(start: number): boolean {
    if (this.bytes[start] !== QUOTE) return false
    for (let p = start + 1; p < this.length; p++) if (this.bytes[p] === BACKSLASH) return true
    return false
  }

  reserve(size: number): void {
    if (this.length + size <= this.bytes.length) return
    const larger = Buffer.allocUnsafeSlow((this.length + size) * 2)
    this.bytes.copy(larger, 0, 0, this.length)
    this.bytes = larger
  }
}
