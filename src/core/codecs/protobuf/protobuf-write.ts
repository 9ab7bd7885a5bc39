import { CLOSE_ARRAY, COMMA, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from '../../../lib/formats/ascii.js'
import type { GrowingBytes } from '../../../lib/formats/growing-bytes.js'
import { sawEscape, skipSpace, slotOf, stringEnd, valueEnd } from '../../../lib/formats/json-scan.js'
import { integerOf, tokenText } from '../../../lib/formats/json-token.js'
import { type MessageField, type MessageType, TYPE } from './protobuf-descriptor.js'
import { highOf, lowOf, WireWriter } from './protobuf-output.js'
import { BYTES, FIXED_32, FIXED_64, MOST_NESTING, VARINT } from './protobuf-wire.js'
import { WRITTEN } from './protobuf-written.js'

const N = 0x6e
const BASE64 = /^[A-Za-z0-9+/_-]*={0,2}$/

const RANGES: Readonly<Record<number, readonly [least: number | bigint, most: number | bigint]>> = {
  [TYPE.int32]: [-(2 ** 31), 2 ** 31 - 1],
  [TYPE.sint32]: [-(2 ** 31), 2 ** 31 - 1],
  [TYPE.sfixed32]: [-(2 ** 31), 2 ** 31 - 1],
  [TYPE.enum]: [-(2 ** 31), 2 ** 31 - 1],
  [TYPE.uint32]: [0, 2 ** 32 - 1],
  [TYPE.fixed32]: [0, 2 ** 32 - 1],
  [TYPE.int64]: [-(2n ** 63n), 2n ** 63n - 1n],
  [TYPE.sint64]: [-(2n ** 63n), 2n ** 63n - 1n],
  [TYPE.sfixed64]: [-(2n ** 63n), 2n ** 63n - 1n],
  [TYPE.uint64]: [0, 2n ** 64n - 1n],
  [TYPE.fixed64]: [0, 2n ** 64n - 1n],
}

function wireOf({ type }: MessageField): number {
  if (type === TYPE.double || type === TYPE.fixed64 || type === TYPE.sfixed64) return FIXED_64
  if (type === TYPE.float || type === TYPE.fixed32 || type === TYPE.sfixed32) return FIXED_32
  return type === TYPE.string || type === TYPE.bytes || type === TYPE.message ? BYTES : VARINT
}

/** Writes JSON as messages. Omits members without a field, and values that do not fit their field. */
export class ProtobufWriter {
  readonly wire = new WireWriter()
  readonly #onLeftOut: (field: MessageField) => void
  b: Buffer = Buffer.alloc(0)
  #end = 0

  constructor(onLeftOut: (field: MessageField) => void) {
    this.#onLeftOut = onLeftOut
  }

  /** Adds the message of the object in [start, end). The byte at `end` must be a control character. */
  write(type: MessageType, b: Buffer, start: number, end: number, to: GrowingBytes): void {
    this.b = b
    this.#end = end
    this.wire.to = to
    this.message(type, skipSpace(b, start, end), 0)
  }

  endOf(p: number): number {
    return valueEnd(this.b, p, this.#end)
  }

  /** Writes the content of a message from the JSON at `p`. Returns false if the JSON has another form. */
  message(type: MessageType, p: number, level: number): boolean {
    if (level === MOST_NESTING) return false
    const written = WRITTEN.get(type.name)
    if (written) return written(this, type, p, level)
    if (this.b[p] !== OPEN_OBJECT) return false
    this.#members(p, (nameStart, nameEnd, value) => {
      const field = type.named[this.#slotOf(type, nameStart, nameEnd)]
      if (field && !this.field(field, value, level)) this.#onLeftOut(field)
    })
    return true
  }

  /** Calls `each` for each member of the object at `open`, with the range of its name and the start of its value. */
  #members(open: number, each: (nameStart: number, nameEnd: number, value: number) => void): void {
    const { b } = this
    const end = this.#end
    let p = skipSpace(b, open + 1, end)
    while (b[p] === QUOTE) {
      const nameEnd = stringEnd(b, p + 1)
      const value = skipSpace(b, skipSpace(b, nameEnd + 1, end) + 1, end)
      each(p, nameEnd + 1, value)
      p = skipSpace(b, valueEnd(b, value, end), end)
      if (b[p] === COMMA) p = skipSpace(b, p + 1, end)
    }
  }

  #slotOf(type: MessageType, nameStart: number, nameEnd: number): number {
    stringEnd(this.b, nameStart + 1)
    if (sawEscape) return type.wanted.names.indexOf(tokenText(this.b, nameStart, nameEnd))
    return slotOf(this.b, nameStart + 1, nameEnd - 1, type.wanted)
  }

  /** Writes a field with all its values. Returns false if the JSON at `p` does not fit. */
  field(field: MessageField, p: number, level: number): boolean {
    const { b } = this
    if (b[p] === N && field.message?.name !== 'google.protobuf.Value') return true
    if (field.message?.isMapEntry) return this.#map(field, field.message, p, level)
    if (!field.isRepeated || b[p] !== OPEN_ARRAY) return this.#tagged(field, p, level)
    const isPacked = field.isPacked && wireOf(field) !== BYTES
    const { wire } = this
    const before = wire.to.length
    if (isPacked) wire.tag(field.number, BYTES)
    const content = isPacked ? wire.begin() : 0
    for (p = skipSpace(b, p + 1, this.#end); b[p] !== CLOSE_ARRAY; ) {
      const fits = isPacked ? this.value(field, p, level) : this.#tagged(field, p, level)
      if (!fits) this.#onLeftOut(field)
      p = skipSpace(b, this.endOf(p), this.#end)
      if (b[p] === COMMA) p = skipSpace(b, p + 1, this.#end)
    }
    if (isPacked && wire.to.length > content) wire.end(content)
    else if (isPacked) wire.to.length = before
    return true
  }

  /** Writes the value at `p` with its tag. Writes nothing and returns false if the value does not fit the field. */
  #tagged(field: MessageField, p: number, level: number): boolean {
    const { wire } = this
    const before = wire.to.length
    wire.tag(field.number, wireOf(field))
    if (this.value(field, p, level)) return true
    wire.to.length = before
    return false
  }

  #map(field: MessageField, entry: MessageType, p: number, level: number): boolean {
    const { wire, b } = this
    const [key, value] = [entry.fields.get(1), entry.fields.get(2)]
    if (b[p] !== OPEN_OBJECT || !key || !value) return false
    this.#members(p, (nameStart, _nameEnd, at) => {
      const before = wire.to.length
      wire.tag(field.number, BYTES)
      const content = wire.begin()
      if (this.#tagged(key, nameStart, level) && this.#tagged(value, at, level + 1)) wire.end(content)
      else {
        wire.to.length = before
        this.#onLeftOut(field)
      }
    })
    return true
  }

  /** Writes a value without a tag. If the JSON at `p` does not fit, returns false. Then discard the output. */
  value(field: MessageField, p: number, level: number): boolean {
    const { wire, b } = this
    switch (field.type) {
      case TYPE.message: {
        const content = wire.begin()
        if (!field.message || !this.message(field.message, p, level + 1)) return false
        wire.end(content)
        return true
      }
      case TYPE.string:
        this.#text(p)
        return true
      case TYPE.bytes: {
        const text = b[p] === QUOTE ? tokenText(b, p, 0) : '?'
        if (!BASE64.test(text)) return false
        this.bytes(Buffer.from(text, 'base64'))
        return true
      }
      case TYPE.bool: {
        const text = tokenText(b, p, this.endOf(p))
        if (text !== 'true' && text !== 'false') return false
        wire.varint(text === 'true' ? 1 : 0)
        return true
      }
      case TYPE.double:
      case TYPE.float: {
        const text = tokenText(b, p, this.endOf(p))
        const number = text.trim() === '' ? Number.NaN : Number(text)
        if (Number.isNaN(number) && text !== 'NaN') return false
        if (field.type === TYPE.double) wire.double(number)
        else wire.float(number)
        return true
      }
      default:
        return this.#integer(field, p)
    }
  }

  /** Writes text unchanged, and any other value as its JSON. */
  #text(p: number): void {
    const { wire, b } = this
    if (b[p] === QUOTE) {
      const end = stringEnd(b, p + 1)
      if (sawEscape) this.bytes(Buffer.from(tokenText(b, p, 0)))
      else {
        wire.varint(end - p - 1)
        wire.to.add(b, p + 1, end)
      }
    } else this.bytes(b.subarray(p, this.endOf(p)))
  }

  bytes(bytes: Buffer): void {
    this.wire.varint(bytes.length)
    this.wire.to.add(bytes, 0, bytes.length)
  }

  #integer(field: MessageField, p: number): boolean {
    const { wire } = this
    const { type } = field
    const text = tokenText(this.b, p, this.endOf(p))
    const value = (type === TYPE.enum ? field.enum?.numbers.get(text) : undefined) ?? integerOf(text)
    const range = RANGES[type]
    if (value === undefined || !range || value < range[0] || value > range[1]) return false
    if (type === TYPE.fixed32 || type === TYPE.sfixed32) wire.fixed(value, 4)
    else if (type === TYPE.fixed64 || type === TYPE.sfixed64) wire.fixed(value, 8)
    else {
      const [low, high] = [lowOf(value), highOf(value)]
      if (type === TYPE.sint32) wire.varint(((low << 1) ^ (low >> 31)) >>> 0)
      else if (type === TYPE.sint64) {
        const sign = high >> 31
        wire.varint((low << 1) ^ sign, (((high << 1) | (low >>> 31)) ^ sign) >>> 0)
      } else wire.varint(low, high)
    }
    return true
  }
}
