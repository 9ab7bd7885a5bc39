import { COMMA, DOT, MINUS, NINE, OPEN_ARRAY, OPEN_OBJECT, QUOTE, ZERO } from '../../../lib/formats/ascii.js'
import type { GrowingBytes } from '../../../lib/formats/growing-bytes.js'
import { sawEscape, skipSpace, stringEnd } from '../../../lib/formats/json-scan.js'

const SMALL_E = 0x65
const CAPITAL_E = 0x45
const F = 0x66
const N = 0x6e
const T = 0x74

/** Integers with more digits may not be exact as numbers. */
const MOST_DIGITS = 15
const MOST_UINT = 2n ** 64n - 1n
const LEAST_INT = -(2n ** 63n)
/** Deeper objects and arrays always get a length of 32 bits, so that each byte is moved at most 16 times. */
const MOST_SHORT_LEVELS = 16
/** Maximum members of an object or array whose length is in its type byte. */
const MOST_FIXED = 15

/** Writes valid JSON as MessagePack, in the shortest form: integers as integers, other numbers as doubles. */
export class MsgpackWriter {
  #b: Buffer = Buffer.alloc(0)
  #end = 0
  #to!: GrowingBytes
  /** For each open object or array: its start in the output, its member count so far, and whether it is an object. */
  readonly #heads: number[] = []
  readonly #counts: number[] = []
  readonly #areObjects: boolean[] = []

  /** Adds the value in [start, end). The byte after it must be a control character. */
  write(b: Buffer, start: number, end: number, to: GrowingBytes): void {
    this.#b = b
    this.#end = end
    this.#to = to
    const heads = this.#heads
    heads.length = 0
    for (let p = skipSpace(b, start, end); ; ) {
      const byte = b[p]!
      if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
        this.#open(byte === OPEN_OBJECT)
        p = skipSpace(b, p + 1, end)
        // In ASCII, each closing bracket has the code of its opening bracket plus 2.
        if (b[p] !== byte + 2) {
          p = this.#member(p)
          continue
        }
        this.#close()
        p++
      } else p = this.#scalar(p)
      for (;;) {
        if (heads.length === 0) return
        p = skipSpace(b, p, end)
        if (b[p++] === COMMA) break
        this.#close()
      }
      p = this.#member(skipSpace(b, p, end))
    }
  }

  #open(isObject: boolean): void {
    const to = this.#to
    this.#heads.push(to.length)
    this.#areObjects[this.#heads.length - 1] = isObject
    this.#counts[this.#heads.length - 1] = 0
    const bytes = this.#heads.length > MOST_SHORT_LEVELS ? 5 : 1
    to.reserve(bytes)
    to.length += bytes
  }

  /** Begins the member at `p`. Returns the start of its value. */
  #member(p: number): number {
    const at = this.#heads.length - 1
    this.#counts[at]!++
    if (!this.#areObjects[at]) return p
    return skipSpace(this.#b, skipSpace(this.#b, this.#text(p), this.#end) + 1, this.#end)
  }

  #close(): void {
    const to = this.#to
    const isDeep = this.#heads.length > MOST_SHORT_LEVELS
    const head = this.#heads.pop()!
    const count = this.#counts[this.#heads.length]!
    const isObject = this.#areObjects[this.#heads.length]
    if (count <= MOST_FIXED && !isDeep) {
      to.bytes[head] = (isObject ? 0x80 : 0x90) | count
      return
    }
    const size = count > 0xffff || isDeep ? 4 : 2
    if (!isDeep) {
      to.reserve(size)
      to.bytes.copyWithin(head + 1 + size, head + 1, to.length)
      to.length += size
    }
    to.bytes[head] = (isObject ? 0xde : 0xdc) + (size === 4 ? 1 : 0)
    to.bytes.writeUIntBE(count, head + 1, size)
  }

  #scalar(p: number): number {
    const byte = this.#b[p]!
    if (byte === QUOTE) return this.#text(p)
    if (byte === N || byte === T || byte === F) {
      this.#to.addByte(byte === N ? 0xc0 : byte === T ? 0xc3 : 0xc2)
      return p + (byte === F ? 5 : 4)
    }
    return this.#number(p)
  }

  #text(p: number): number {
    const to = this.#to
    const end = stringEnd(this.#b, p + 1)
    if (sawEscape) {
      const text = Buffer.from(JSON.parse(this.#b.toString('utf8', p, end + 1)) as string)
      this.#textHead(text.length)
      to.add(text, 0, text.length)
    } else {
      this.#textHead(end - p - 1)
      to.add(this.#b, p + 1, end)
    }
    return end + 1
  }

  #textHead(size: number): void {
    if (size < 32) this.#to.addByte(0xa0 | size)
    else if (size < 2 ** 8) this.#put(0xd9, size, 1)
    else if (size < 2 ** 16) this.#put(0xda, size, 2)
    else this.#put(0xdb, size, 4)
  }

  #put(type: number, value: number, size: number): void {
    const to = this.#to
    to.reserve(size + 1)
    to.bytes[to.length] = type
    to.bytes.writeUIntBE(value, to.length + 1, size)
    to.length += size + 1
  }

  #number(start: number): number {
    const b = this.#b
    const isNegative = b[start] === MINUS
    let p = isNegative ? start + 1 : start
    let value = 0
    for (; b[p]! >= ZERO && b[p]! <= NINE; p++) value = value * 10 + b[p]! - ZERO
    const digits = p - start - (isNegative ? 1 : 0)
    if (b[p] === DOT || b[p] === SMALL_E || b[p] === CAPITAL_E) {
      while (isOfNumber(b[p]!)) p++
      this.#double(Number(b.toString('latin1', start, p)))
    } else if (digits <= MOST_DIGITS) this.#integer(isNegative ? -value : value)
    else this.#large(b.toString('latin1', start, p))
    return p
  }

  #integer(value: number): void {
    if (value >= 0) {
      if (value < 0x80) this.#to.addByte(value)
      else if (value < 2 ** 8) this.#put(0xcc, value, 1)
      else if (value < 2 ** 16) this.#put(0xcd, value, 2)
      else if (value < 2 ** 32) this.#put(0xce, value, 4)
      else this.#large(value)
    } else if (value >= -0x20) this.#to.addByte(256 + value)
    else if (value >= -(2 ** 7)) this.#put(0xd0, value + 2 ** 8, 1)
    else if (value >= -(2 ** 15)) this.#put(0xd1, value + 2 ** 16, 2)
    else if (value >= -(2 ** 31)) this.#put(0xd2, value + 2 ** 32, 4)
    else this.#large(value)
  }

  /** Writes an integer of up to 64 bits. A larger one becomes a double. */
  #large(digits: number | string): void {
    const to = this.#to
    const value = BigInt(digits)
    if (value > MOST_UINT || value < LEAST_INT) {
      this.#double(Number(digits))
      return
    }
    to.reserve(9)
    to.bytes[to.length] = value >= 0n ? 0xcf : 0xd3
    to.bytes.writeBigUInt64BE(BigInt.asUintN(64, value), to.length + 1)
    to.length += 9
  }

  #double(value: number): void {
    const to = this.#to
    to.reserve(9)
    to.bytes[to.length] = 0xcb
    to.bytes.writeDoubleBE(value, to.length + 1)
    to.length += 9
  }
}

function isOfNumber(byte: number): boolean {
  return (
    (byte >= ZERO && byte <= NINE) ||
    byte === DOT ||
    byte === SMALL_E ||
    byte === CAPITAL_E ||
    byte === MINUS ||
    byte === 0x2b
  )
}
