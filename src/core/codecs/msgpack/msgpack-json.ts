import {
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  MINUS,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
} from '../../../lib/formats/ascii.js'
import type { GrowingBytes } from '../../../lib/formats/growing-bytes.js'
import { addFloat, addInteger } from '../../../lib/formats/json-numbers.js'
import { escapeInto, MOST_ESCAPED } from '../../../lib/formats/json-string.js'
import { rfc3339 } from '../../../lib/formats/rfc3339.js'
import { ARRAY_16, FIRST_TYPE, FIXED_BYTES, LAST_TYPE, LENGTH_BYTES, lengthAt, MAP_16 } from './msgpack-scanner.js'

const NULL = Buffer.from('null')
const TRUE = Buffer.from('true')
const FALSE = Buffer.from('false')
const TIMESTAMP = Buffer.from('"timestamp":')

const STR_8 = 0xd9
/** The type byte of an array of two values. */
const PAIR = 0x92
/** Shorter texts are escaped in one step, into room for the largest possible result. */
const SHORT = 2048
/** Maximum nesting of a record. */
const MOST_LEVELS = 256
/** The result for bytes that cannot be read. */
const NONE = -1

const isArray = (type: number) => (type >= 0x90 && type < 0xa0) || type === ARRAY_16 || type === ARRAY_16 + 1
const isMap = (type: number) => (type >= 0x80 && type < 0x90) || type === MAP_16 || type === MAP_16 + 1
const isText = (type: number) => (type >= 0xa0 && type < FIRST_TYPE) || (type >= STR_8 && type < ARRAY_16)

/** Writes MessagePack records as JSON. Each method returns the end of the bytes that it has read, or NONE. */
export class MsgpackJson {
  readonly #binaryIsText: boolean
  #b: Buffer = Buffer.alloc(0)
  #end = 0
  #to!: GrowingBytes
  #hasTimestamp = false

  /** `binaryIsText`: writes binary values as text, not in base64. */
  constructor(binaryIsText: boolean) {
    this.#binaryIsText = binaryIsText
  }

  /** Adds the JSON of the record [start, end), which is a map or a Fluentd entry. For other records, returns false. */
  write(b: Buffer, start: number, end: number, to: GrowingBytes): boolean {
    this.#b = b
    this.#end = end
    this.#to = to
    const before = to.length
    const stop = start >= end ? NONE : isMap(b[start]!) ? this.#value(start, 0) : this.#entry(start)
    if (stop === end) return true
    to.length = before
    return false
  }

  /** Writes the map of `[time, map]` or `[[time, metadata], map]`. Adds a missing `timestamp` from the time. */
  #entry(start: number): number {
    const [b, to] = [this.#b, this.#to]
    const before = to.length
    if (b[start] !== PAIR) return NONE
    const isNested = b[start + 1] === PAIR
    const timeStart = start + (isNested ? 2 : 1)
    let p = this.#value(timeStart, 0)
    const time = p === NONE ? undefined : timeOf(to.bytes.toString('latin1', before, to.length))
    if (time !== undefined && isNested) p = this.#value(p, 0)
    to.length = before
    if (time === undefined || p === NONE || p >= this.#end || !isMap(b[p]!)) return NONE
    this.#hasTimestamp = false
    p = this.#value(p, 0)
    if (p === NONE || this.#hasTimestamp) return p
    to.length--
    if (to.bytes[to.length - 1] !== OPEN_OBJECT) to.addByte(COMMA)
    to.add(TIMESTAMP, 0, TIMESTAMP.length)
    to.addText(`"${time}"}`)
    return p
  }

  #value(p: number, level: number): number {
    const [b, to] = [this.#b, this.#to]
    if (p >= this.#end) return NONE
    const type = b[p]!
    if (type < 0x80) {
      addInteger(to, type)
      return p + 1
    }
    if (type < 0x90) return this.#map(p + 1, type & 15, level)
    if (type < 0xa0) return this.#array(p + 1, type & 15, level)
    if (type < FIRST_TYPE) return this.#text(p + 1, type & 31)
    if (type > LAST_TYPE) {
      to.addByte(MINUS)
      addInteger(to, 256 - type)
      return p + 1
    }
    const from = p + 1 + LENGTH_BYTES[type - FIRST_TYPE]!
    const stop = from + FIXED_BYTES[type - FIRST_TYPE]!
    if (stop > this.#end) return NONE
    const length = lengthAt(b, p + 1, from - p - 1)
    if (type >= MAP_16) return this.#map(from, length, level)
    if (type >= ARRAY_16) return this.#array(from, length, level)
    if (type >= STR_8) return this.#text(from, length)
    if (type >= 0xd4) return this.#extension(from, stop - from - 1)
    if (type >= 0xca) {
      this.#number(type, from)
      return stop
    }
    if (type >= 0xc7) return this.#extension(from, length)
    if (type >= 0xc4) return this.#binary(from, length)
    if (type === 0xc1) return NONE
    const word = type === 0xc0 ? NULL : type === 0xc2 ? FALSE : TRUE
    to.add(word, 0, word.length)
    return stop
  }

  #map(p: number, length: number, level: number): number {
    const to = this.#to
    // Rejects impossible lengths, because each member takes at least two bytes.
    if (level === MOST_LEVELS || length * 2 > this.#end - p) return NONE
    to.addByte(OPEN_OBJECT)
    for (let n = 0; n < length; n++) {
      if (n > 0) to.addByte(COMMA)
      const name = to.length
      p = this.#key(p)
      if (p === NONE) return NONE
      to.addByte(COLON)
      if (level === 0 && to.length - name === TIMESTAMP.length)
        this.#hasTimestamp ||= TIMESTAMP.compare(to.bytes, name, to.length) === 0
      p = this.#value(p, level + 1)
      if (p === NONE) return NONE
    }
    to.addByte(CLOSE_OBJECT)
    return p
  }

  #array(p: number, length: number, level: number): number {
    const to = this.#to
    if (level === MOST_LEVELS || length > this.#end - p) return NONE
    to.addByte(OPEN_ARRAY)
    for (let n = 0; n < length; n++) {
      if (n > 0) to.addByte(COMMA)
      p = this.#value(p, level + 1)
      if (p === NONE) return NONE
    }
    to.addByte(CLOSE_ARRAY)
    return p
  }

  /** Writes a key. A key that is not text becomes the text of its JSON. Maps and arrays cannot be keys. */
  #key(p: number): number {
    const [b, to] = [this.#b, this.#to]
    if (p >= this.#end || isMap(b[p]!) || isArray(b[p]!)) return NONE
    if (isText(b[p]!)) return this.#value(p, 0)
    const before = to.length
    const stop = this.#value(p, 0)
    const first = to.bytes[before]
    if (stop === NONE || first === QUOTE) return stop
    if (first === OPEN_OBJECT) return NONE
    const text = to.bytes.toString('latin1', before, to.length)
    to.length = before
    to.addText(`"${text}"`)
    return stop
  }

  #text(p: number, size: number): number {
    const to = this.#to
    const stop = p + size
    if (stop > this.#end) return NONE
    to.reserve(size < SHORT ? size * MOST_ESCAPED + 2 : 1)
    to.bytes[to.length++] = QUOTE
    if (size < SHORT) to.length = escapeInto(to.bytes, to.length, this.#b, p, stop)
    else to.addEscaped(this.#b, p, stop)
    to.addByte(QUOTE)
    return stop
  }

  #number(type: number, p: number): void {
    const [b, to] = [this.#b, this.#to]
    if (type === 0xca) addFloat(to, b.readFloatBE(p))
    else if (type === 0xcb) addFloat(to, b.readDoubleBE(p))
    else if (type === 0xcf) addInteger(to, safe(b.readUInt32BE(p), b.readUInt32BE(p + 4)) ?? b.readBigUInt64BE(p))
    else if (type === 0xd3) addInteger(to, b.readBigInt64BE(p))
    else addInteger(to, type < 0xd0 ? b.readUIntBE(p, 1 << (type - 0xcc)) : b.readIntBE(p, 1 << (type - 0xd0)))
  }

  #binary(p: number, size: number): number {
    if (this.#binaryIsText) return this.#text(p, size)
    const stop = p + size
    if (stop > this.#end) return NONE
    this.#to.addText(`"${this.#b.toString('base64', p, stop)}"`)
    return stop
  }

  /** Writes an extension. Its type number is at `p`, and its `size` bytes follow. */
  #extension(p: number, size: number): number {
    const b = this.#b
    const stop = p + 1 + size
    if (stop > this.#end) return NONE
    const type = b.readInt8(p)
    const time = type === -1 || type === 0 ? readTime(b, p + 1, size, type === 0) : undefined
    const json = time === undefined ? `{"ext":${type},"data":"${b.toString('base64', p + 1, stop)}"}` : `"${time}"`
    this.#to.addText(json)
    return stop
  }
}

function safe(high: number, low: number): number | undefined {
  return high < 2 ** 21 ? high * 2 ** 32 + low : undefined
}

/** Reads a time of MessagePack or, if `isEventTime`, of Fluentd: 32 bits of seconds and 32 of nanoseconds. */
function readTime(b: Buffer, p: number, size: number, isEventTime: boolean): string | undefined {
  if (isEventTime) return size === 8 ? rfc3339(b.readUInt32BE(p), b.readUInt32BE(p + 4)) : undefined
  if (size === 4) return rfc3339(b.readUInt32BE(p), 0)
  if (size === 8) {
    const [high, low] = [b.readUInt32BE(p), b.readUInt32BE(p + 4)]
    return rfc3339((high & 3) * 2 ** 32 + low, high >>> 2)
  }
  return size === 12 ? rfc3339(Number(b.readBigInt64BE(p + 4)), b.readUInt32BE(p)) : undefined
}

/** Returns the time of an entry, from its JSON: a time that is already formatted, or seconds since the epoch. */
function timeOf(json: string): string | undefined {
  if (json[0] === '"') return /^"\d{4}-.*Z"$/.test(json) ? json.slice(1, -1) : undefined
  const seconds = Number(json)
  const whole = Math.floor(seconds)
  return rfc3339(whole, Math.round((seconds - whole) * 1e6) * 1000)
}
