import { FieldName } from './field-sink.js'
import type { GrowingBytes } from './growing-bytes.js'
import { addInteger } from './json-numbers.js'
import { stringEnd } from './json-scan.js'
import { escapeInto, MOST_ESCAPED } from './json-string.js'
import { type Field, type MessageType, TYPE, type Types } from './protobuf-descriptor.js'
import { KNOWN } from './protobuf-known.js'
import { addScalar, addZero } from './protobuf-scalars.js'
import { BYTES, broken, MOST_LEVELS, NotProtobuf, WireReader } from './protobuf-wire.js'

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const NULL = Buffer.from('null')

/** Maximum size of the JSON of a record, in multiples of its own size: names and enums are long where values are a byte. */
const MOST_GROWTH = 64
const LITTLE_GROWTH = 1024

/** Shorter texts are escaped at once, with room for the most that they may take. */
const SHORT = 2048
/** Messages with more places have their marks in an array. */
const MOST_MARKS = 31
/** The wire type of each type of a field; -1: groups, which are not read. */
const WIRE_TYPES = [-1, 1, 5, 0, 0, 0, 1, 5, 0, 2, -1, 2, 2, 0, 0, 5, 1, 0, 0]

export interface JsonOptions {
  /** As in the definition, or as JSON usually has them. */
  readonly fieldNames: 'proto' | 'json'
  /** Whether integers of 64 bits are texts. */
  readonly textIntegers: boolean
}

/** Where a value is, without its tag, and its type on the wire. */
interface Part {
  readonly wire: number
  readonly start: number
  readonly end: number
}

/** Writes messages as JSON, by the standard mapping. */
export class ProtobufJson {
  readonly types: Types
  readonly #options: JsonOptions
  /** By field: its name in JSON, with the quotes and the colon. */
  readonly #names = new Map<Field, Buffer>()
  readonly reader = new WireReader()
  to!: GrowingBytes
  /** Where the JSON of the record ends at the latest. */
  #most = 0
  /** Whether a field of the record came again. Messages are then collected at once: writing twice doubles with a level. */
  #repeats = false

  constructor(types: Types, options: JsonOptions) {
    this.types = types
    this.#options = options
    for (const { fields } of types.messages.values()) {
      for (const field of fields.values()) {
        const name = options.fieldNames === 'proto' ? field.name : field.jsonName
        this.#names.set(field, new FieldName(name).json!)
      }
    }
  }

  /** Adds the JSON of the message [start, end); false, and nothing, if it is not of this type. */
  write(type: MessageType, b: Buffer, start: number, end: number, to: GrowingBytes): boolean {
    const before = to.length
    const { reader } = this
    this.to = to
    this.#most = before + (end - start) * MOST_GROWTH + LITTLE_GROWTH
    this.#repeats = false
    reader.b = b
    reader.p = start
    reader.end = end
    try {
      this.message(type, 0)
      return true
    } catch (error) {
      if (!(error instanceof NotProtobuf)) throw error
      to.length = before
      return false
    }
  }

  /** Writes the message up to `reader.end`. */
  message(type: MessageType, level: number): void {
    if (level === MOST_LEVELS) broken()
    const known = KNOWN.get(type.name)
    if (known) known(this, type, level)
    else {
      this.to.addByte(OPEN_OBJECT)
      this.members(type, level)
      this.to.addByte(CLOSE_OBJECT)
    }
  }

  /** Writes the members of an object. Where a field is not in one piece, or comes again, they are collected before. */
  members(type: MessageType, level: number): void {
    if (this.#repeats) {
      this.#collected(type, level)
      return
    }
    const { reader, to } = this
    const [begin, before] = [reader.p, to.length]
    const marks = type.places > MOST_MARKS ? new Uint8Array(type.places) : undefined
    let seen = 0
    let open: Field | undefined
    while (reader.p < reader.end) {
      const tag = reader.varint()
      const field = fieldOf(type, tag)
      if (!field) {
        reader.skip(tag)
        continue
      }
      if (field === open) {
        this.#elements(field, tag & 7, level)
        continue
      }
      if (marks ? marks[field.place] : (seen >> field.place) & 1) {
        this.#repeats = true
        reader.p = begin
        to.length = before
        this.#collected(type, level)
        return
      }
      if (marks) marks[field.place] = 1
      else seen |= 1 << field.place
      if (open) this.#close(open)
      open = undefined
      if (to.length > before) to.addByte(COMMA)
      this.#addName(field)
      if (field.isRepeated) {
        to.addByte(field.message?.isMapEntry ? OPEN_OBJECT : OPEN_ARRAY)
        this.#elements(field, tag & 7, level)
        open = field
      } else this.value(field, level)
    }
    if (open) this.#close(open)
  }

  /** Writes the value of the only field of a message, without its name. Returns false if it is missing. */
  unnamed(type: MessageType, level: number): boolean {
    if (type.places > 1) broken()
    const { to } = this
    const before = to.length
    this.members(type, level)
    if (to.length === before) return false
    // Behind the name, which has quotes and a colon.
    const value = stringEnd(to.bytes, before + 1) + 2
    to.bytes.copyWithin(before, value, to.length)
    to.length -= value - before
    return true
  }

  #addName(field: Field): void {
    const name = this.#names.get(field)!
    this.to.add(name, 0, name.length)
  }

  #close(field: Field): void {
    this.to.addByte(field.message?.isMapEntry ? CLOSE_OBJECT : CLOSE_ARRAY)
  }

  /** All values of a field are one: the last one, messages put together, elements in one array. */
  #collected(type: MessageType, level: number): void {
    const { reader, to } = this
    const { b, end } = reader
    // By place, so that another field of a oneof takes that of the one before.
    const found = new Map<number, { readonly field: Field; readonly parts: Part[] }>()
    while (reader.p < end) {
      const tag = reader.varint()
      const start = reader.p
      reader.skip(tag)
      const field = fieldOf(type, tag)
      if (!field) continue
      const before = found.get(field.place)
      const part = { wire: tag & 7, start, end: reader.p }
      if (before?.field !== field) {
        found.delete(field.place)
        found.set(field.place, { field, parts: [part] })
      } else if (field.isRepeated || field.type === TYPE.message) before.parts.push(part)
      else before.parts[0] = part
    }
    const before = to.length
    for (const { field, parts } of found.values()) {
      if (to.length > before) to.addByte(COMMA)
      this.#addName(field)
      if (field.isRepeated) {
        to.addByte(field.message?.isMapEntry ? OPEN_OBJECT : OPEN_ARRAY)
        for (const part of parts) {
          reader.p = part.start
          this.#elements(field, part.wire, level)
        }
        this.#close(field)
      } else if (parts.length === 1) {
        reader.p = parts[0]!.start
        this.value(field, level)
      } else this.#together(field, parts, level)
    }
    reader.b = b
    reader.p = end
    reader.end = end
  }

  /** Several messages are one after the other the same as one with all of their fields. */
  #together(field: Field, parts: readonly { start: number; end: number }[], level: number): void {
    const { reader } = this
    const { b, end } = reader
    const contents = parts.map(part => {
      reader.p = part.start
      const size = reader.length()
      return b.subarray(reader.p, reader.p + size)
    })
    reader.b = Buffer.concat(contents)
    reader.p = 0
    reader.end = reader.b.length
    this.message(field.message!, level + 1)
    reader.b = b
    reader.end = end
  }

  /** One element or entry, or several that are packed. */
  #elements(field: Field, wire: number, level: number): void {
    const { reader } = this
    if (wire !== BYTES || WIRE_TYPES[field.type] === BYTES) {
      this.#addComma()
      if (field.message?.isMapEntry) this.#entry(field.message, level)
      else this.value(field, level)
      return
    }
    const { end } = reader
    const size = reader.length()
    reader.end = reader.p + size
    while (reader.p < reader.end) {
      this.#addComma()
      this.value(field, level)
    }
    reader.end = end
  }

  /** Adds a comma unless an array or object has just begun: no element ends with such a byte. */
  #addComma(): void {
    const last = this.to.bytes[this.to.length - 1]
    if (last !== OPEN_ARRAY && last !== OPEN_OBJECT) this.to.addByte(COMMA)
  }

  /** An entry of a map: its key as a name, and its value. Either may be missing, and then is the default of its type. */
  #entry(type: MessageType, level: number): void {
    const { reader, to } = this
    const { end } = reader
    const size = reader.length()
    reader.end = reader.p + size
    const [keyField, valueField] = [type.fields.get(1) ?? broken(), type.fields.get(2) ?? broken()]
    let [key, value] = [-1, -1]
    while (reader.p < reader.end) {
      const tag = reader.varint()
      const field = fieldOf(type, tag)
      if (field === keyField) key = reader.p
      else if (field === valueField) value = reader.p
      reader.skip(tag)
    }
    const stop = reader.p
    this.#key(keyField, key, level)
    to.addByte(COLON)
    if (value < 0) this.default(valueField, level)
    else {
      reader.p = value
      this.value(valueField, level)
    }
    reader.p = stop
    reader.end = end
  }

  #key(field: Field, at: number, level: number): void {
    const { reader, to } = this
    const before = to.length
    if (field.message) broken()
    if (at >= 0) {
      reader.p = at
      this.value(field, level)
    } else this.default(field, level)
    if (to.bytes[before] === QUOTE) return
    const text = to.bytes.toString('latin1', before, to.length)
    to.length = before
    to.addText(`"${text}"`)
  }

  /** Writes the value of a field that is missing. */
  default(field: Field, level: number): void {
    const { reader, to } = this
    if (field.type === TYPE.string || field.type === TYPE.bytes) to.addText('""')
    else if (field.message) {
      const { p, end } = reader
      reader.end = p
      this.message(field.message, level + 1)
      reader.p = p
      reader.end = end
    } else if (field.enum) this.#enum(field, field.enum.names.has(0) ? 0 : (field.enum.names.keys().next().value ?? 0))
    else addZero(to, field.type, this.#options.textIntegers)
  }

  /** Writes the value at `reader.p`, and moves behind it. */
  value(field: Field, level: number): void {
    const { reader, to } = this
    if (to.length > this.#most) broken()
    switch (field.type) {
      case TYPE.string:
        this.#text()
        break
      case TYPE.message: {
        const { end } = reader
        const size = reader.length()
        reader.end = reader.p + size
        this.message(field.message!, level + 1)
        if (reader.p !== reader.end) broken()
        reader.end = end
        break
      }
      case TYPE.enum:
        this.#enum(field, reader.varint() | 0)
        break
      case TYPE.bytes: {
        const size = reader.length()
        const from = reader.take(size)
        to.addText(`"${reader.b.toString('base64', from, from + size)}"`)
        break
      }
      default:
        addScalar(reader, to, field.type, this.#options.textIntegers)
        break
    }
  }

  /** The text at `reader.p`, with its length before it. */
  #text(): void {
    const { reader, to } = this
    const size = reader.length()
    const from = reader.take(size)
    to.reserve(size < SHORT ? size * MOST_ESCAPED + 2 : 1)
    to.bytes[to.length++] = QUOTE
    if (size < SHORT) to.length = escapeInto(to.bytes, to.length, reader.b, from, from + size)
    else to.addEscaped(reader.b, from, from + size)
    to.addByte(QUOTE)
  }

  #enum(field: Field, number: number): void {
    const { to } = this
    const name = field.enum!.names.get(number)
    if (field.enum!.name === 'google.protobuf.NullValue') to.add(NULL, 0, NULL.length)
    else if (name === undefined) addInteger(to, number)
    else to.add(name, 0, name.length)
  }
}

/** The field of a tag; undefined if the type has none, or its wire type does not fit. */
export function fieldOf(type: MessageType, tag: number): Field | undefined {
  const field = type.fields.get(tag >>> 3)
  if (!field) return undefined
  const wire = WIRE_TYPES[field.type] ?? -1
  if (wire === (tag & 7)) return field
  return wire >= 0 && field.isRepeated && (tag & 7) === BYTES ? field : undefined
}
