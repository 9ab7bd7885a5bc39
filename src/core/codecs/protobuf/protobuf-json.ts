import { CLOSE_ARRAY, CLOSE_OBJECT, COLON, COMMA, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from '../../../lib/formats/ascii.js'
import { FieldName } from '../../../lib/formats/field-sink.js'
import type { GrowingBytes } from '../../../lib/formats/growing-bytes.js'
import { escapeInto, MOST_ESCAPED } from '../../../lib/formats/json-string.js'
import { type MessageField, type MessageType, TYPE, type Types } from './protobuf-descriptor.js'
import { KNOWN } from './protobuf-known.js'
import { addScalar, addZero } from './protobuf-scalars.js'
import { BYTES, broken, MOST_NESTING, NotProtobuf, WireReader } from './protobuf-wire.js'

/** Maximum size of the JSON, as a multiple of the record. JSON has long names where the record may have one byte. */
const MOST_GROWTH = 64
const LITTLE_GROWTH = 1024

/** Shorter texts are escaped at once, with room for the maximum size. */
const SHORT = 2048

/** The wire type of each field type; -1: groups, which are not read. */
const WIRE_TYPES = [-1, 1, 5, 0, 0, 0, 1, 5, 0, 2, -1, 2, 2, 0, 0, 5, 1, 0, 0]

export interface JsonOptions {
  /** Whether names are written as in the definition, or in the usual form of JSON. */
  readonly fieldNames: 'proto' | 'json'
  /** Whether 64-bit integers are written as texts. */
  readonly textIntegers: boolean
}

/** A field of a message, and where each of its values starts. A value starts with its tag. */
interface Found {
  readonly field: MessageField
  readonly places: number[]
}

/** Writes messages as JSON, by the standard mapping. */
export class ProtobufJson {
  readonly types: Types
  readonly #options: JsonOptions
  /** For each field: its name in JSON, with quotes and colon. */
  readonly #names = new Map<MessageField, Buffer>()
  to!: GrowingBytes
  /** Maximum end of the record's JSON. */
  #most = 0

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

  /** Adds the JSON of the message [start, end). If it is not of this type, returns false and adds nothing. */
  write(type: MessageType, b: Buffer, start: number, end: number, to: GrowingBytes): boolean {
    const before = to.length
    this.to = to
    this.#most = before + (end - start) * MOST_GROWTH + LITTLE_GROWTH
    try {
      this.message(type, new WireReader(b, start, end), 0)
      return true
    } catch (error) {
      if (!(error instanceof NotProtobuf)) throw error
      to.length = before
      return false
    }
  }

  message(type: MessageType, reader: WireReader, level: number): void {
    if (level === MOST_NESTING) broken()
    const known = KNOWN.get(type.name)
    if (known) {
      known(this, type, reader, level)
      return
    }
    this.to.addByte(OPEN_OBJECT)
    this.members(type, reader, level)
    this.to.addByte(CLOSE_OBJECT)
  }

  /** Writes a message as the members of an object. */
  members(type: MessageType, reader: WireReader, level: number): void {
    const { to } = this
    const before = to.length
    for (const found of fieldsOf(type, reader)) {
      if (to.length > before) to.addByte(COMMA)
      const name = this.#names.get(found.field)!
      to.add(name, 0, name.length)
      this.#field(found, reader, level)
    }
  }

  /** Writes the value of a message's only field. Returns false if it is missing. */
  unnamed(type: MessageType, reader: WireReader, level: number): boolean {
    if (type.places > 1) broken()
    const [found] = fieldsOf(type, reader)
    if (found) this.#field(found, reader, level)
    return found !== undefined
  }

  /** Writes a field: all elements of a repeated field, several messages as one, otherwise only the last value. */
  #field({ field, places }: Found, reader: WireReader, level: number): void {
    if (field.isRepeated) this.#elements(field, places, reader, level)
    else if (places.length === 1) this.#value(field, behindTag(reader, places[0]!), level)
    else {
      // Merges the messages by concatenating them, because the result equals one message with all their fields.
      const contents = places.map(place => behindTag(reader, place).inner().rest())
      this.message(field.message!, WireReader.of(Buffer.concat(contents)), level + 1)
    }
  }

  #elements(field: MessageField, places: readonly number[], reader: WireReader, level: number): void {
    const { to } = this
    const entry = field.message?.isMapEntry ? field.message : undefined
    to.addByte(entry ? OPEN_OBJECT : OPEN_ARRAY)
    const before = to.length
    const add = (element: WireReader) => {
      if (to.length > before) to.addByte(COMMA)
      if (entry) this.#entry(entry, element.inner(), level)
      else this.#value(field, element, level)
    }
    for (const place of places) {
      const isPacked = (reader.at(place).varint() & 7) === BYTES && WIRE_TYPES[field.type] !== BYTES
      if (!isPacked) add(reader)
      else for (const packed = reader.inner(); packed.p < packed.end; ) add(packed)
    }
    to.addByte(entry ? CLOSE_OBJECT : CLOSE_ARRAY)
  }

  /** Writes a map entry as a member: the key is its name. The type's default replaces a missing key or value. */
  #entry(type: MessageType, reader: WireReader, level: number): void {
    const { to } = this
    const [key, value] = [type.fields.get(1) ?? broken(), type.fields.get(2) ?? broken()]
    if (key.message) broken()
    const found = fieldsOf(type, reader)
    const add = (field: MessageField) => {
      const one = found.find(other => other.field === field)
      if (one) this.#field(one, reader, level)
      else this.default(field, level)
    }
    const before = to.length
    add(key)
    if (to.bytes[before] !== QUOTE) {
      const text = to.bytes.toString('latin1', before, to.length)
      to.length = before
      to.addText(`"${text}"`)
    }
    to.addByte(COLON)
    add(value)
  }

  default(field: MessageField, level: number): void {
    const { to } = this
    if (field.type === TYPE.string || field.type === TYPE.bytes) to.addText('""')
    else if (field.message) this.message(field.message, WireReader.of(NOTHING), level + 1)
    else if (field.enum) {
      const { names } = field.enum
      to.addText(enumText(field, names.has(0) ? 0 : (names.keys().next().value ?? 0)))
    } else addZero(to, field.type, this.#options.textIntegers)
  }

  /** Writes the value at `reader.p`, and moves the reader past the value. */
  #value(field: MessageField, reader: WireReader, level: number): void {
    const { to } = this
    if (to.length > this.#most) broken()
    if (field.type === TYPE.message) this.message(field.message!, reader.inner(), level + 1)
    else if (field.type === TYPE.string) this.#text(reader)
    else if (field.type === TYPE.bytes) to.addText(`"${reader.text('base64')}"`)
    else if (field.type === TYPE.enum) to.addText(enumText(field, reader.varint() | 0))
    else addScalar(reader, to, field.type, this.#options.textIntegers)
  }

  #text(reader: WireReader): void {
    const { to } = this
    const size = reader.length()
    const from = reader.take(size)
    to.reserve(size < SHORT ? size * MOST_ESCAPED + 2 : 1)
    to.bytes[to.length++] = QUOTE
    if (size < SHORT) to.length = escapeInto(to.bytes, to.length, reader.b, from, from + size)
    else to.addEscaped(reader.b, from, from + size)
    to.addByte(QUOTE)
  }
}

const NOTHING = Buffer.alloc(0)

function enumText(field: MessageField, number: number): string {
  if (field.enum!.name === 'google.protobuf.NullValue') return 'null'
  return field.enum!.names.get(number) ?? String(number)
}

function behindTag(reader: WireReader, place: number): WireReader {
  reader.at(place).varint()
  return reader
}

/** Returns the fields of a message in order. Of the fields of a oneof, returns only the last. */
function fieldsOf(type: MessageType, reader: WireReader): Found[] {
  const found = new Map<number, Found>()
  while (reader.p < reader.end) {
    const place = reader.p
    const tag = reader.varint()
    reader.skip(tag)
    const field = fieldOf(type, tag)
    if (!field) continue
    const before = found.get(field.place)
    if (before?.field !== field) {
      found.delete(field.place)
      found.set(field.place, { field, places: [place] })
    } else if (field.isRepeated || field.type === TYPE.message) before.places.push(place)
    else before.places[0] = place
  }
  return [...found.values()]
}

/** Returns the field for a tag; undefined if `type` has no such field, or if the wire type does not match. */
function fieldOf(type: MessageType, tag: number): MessageField | undefined {
  const field = type.fields.get(tag >>> 3)
  if (!field) return undefined
  const wire = WIRE_TYPES[field.type] ?? -1
  if (wire === (tag & 7)) return field
  return wire >= 0 && field.isRepeated && (tag & 7) === BYTES ? field : undefined
}
