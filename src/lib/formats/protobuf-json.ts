import type { GrowingBytes } from './growing-bytes.js'
import { type Field, type MessageType, TYPE, type Types } from './protobuf-descriptor.js'
import { KNOWN } from './protobuf-known.js'
import { scalarText, zeroText } from './protobuf-scalars.js'
import { BYTES, broken, MOST_LEVELS, NotProtobuf, WireReader } from './protobuf-wire.js'

/** Maximum size of the JSON of a record, in multiples of its own size: names and enums are long where values are a byte. */
const MOST_GROWTH = 64
const LITTLE_GROWTH = 1024

/** The wire type of each type of a field; -1: groups, which are not read. */
const WIRE_TYPES = [-1, 1, 5, 0, 0, 0, 1, 5, 0, 2, -1, 2, 2, 0, 0, 5, 1, 0, 0]

export interface JsonOptions {
  /** As in the definition, or as JSON usually has them. */
  readonly fieldNames: 'proto' | 'json'
  /** Whether integers of 64 bits are texts. */
  readonly textIntegers: boolean
}

/** A field of a message and where its values begin, each with its tag. */
interface Found {
  readonly field: Field
  readonly places: number[]
}

/** Writes messages as JSON, by the standard mapping. */
export class ProtobufJson {
  readonly types: Types
  readonly #options: JsonOptions
  /** By field: its name in JSON, with the quotes and the colon. */
  readonly #names = new Map<Field, string>()
  /** How many characters the JSON of the record may still have. */
  #room = 0

  constructor(types: Types, options: JsonOptions) {
    this.types = types
    this.#options = options
    for (const { fields } of types.messages.values()) {
      for (const field of fields.values()) {
        const name = options.fieldNames === 'proto' ? field.name : field.jsonName
        this.#names.set(field, `${JSON.stringify(name)}:`)
      }
    }
  }

  /** Adds the JSON of the message [start, end); false, and nothing, if it is not of this type. */
  write(type: MessageType, b: Buffer, start: number, end: number, to: GrowingBytes): boolean {
    this.#room = (end - start) * MOST_GROWTH + LITTLE_GROWTH
    try {
      to.addText(this.message(type, new WireReader(b, start, end), 0))
      return true
    } catch (error) {
      if (error instanceof NotProtobuf) return false
      throw error
    }
  }

  /** The JSON of the message that the reader is of. */
  message(type: MessageType, reader: WireReader, level: number): string {
    if (level === MOST_LEVELS) broken()
    const known = KNOWN.get(type.name)
    return known ? known(this, type, reader, level) : `{${this.members(type, reader, level)}}`
  }

  /** The members of the object that a message is. */
  members(type: MessageType, reader: WireReader, level: number): string {
    let members = ''
    for (const found of fieldsOf(type, reader)) {
      if (members !== '') members += ','
      const name = this.#names.get(found.field)!
      this.#room -= name.length
      members += name + this.#field(found, reader, level)
    }
    return members
  }

  /** The value of the only field of a message; undefined if it is missing. */
  unnamed(type: MessageType, reader: WireReader, level: number): string | undefined {
    if (type.places > 1) broken()
    const [found] = fieldsOf(type, reader)
    return found && this.#field(found, reader, level)
  }

  /** All values of a field are one: elements in one array, messages put together, or the last one. */
  #field({ field, places }: Found, reader: WireReader, level: number): string {
    const all: string[] = []
    if (field.message?.isMapEntry) {
      for (const place of places) all.push(this.#entry(field.message, behindTag(reader, place).inner(), level))
      return `{${all.join()}}`
    }
    if (field.isRepeated) {
      for (const place of places) {
        const isPacked = (reader.at(place).varint() & 7) === BYTES && WIRE_TYPES[field.type] !== BYTES
        if (!isPacked) all.push(this.#value(field, reader, level))
        else for (const packed = reader.inner(); packed.p < packed.end; ) all.push(this.#value(field, packed, level))
      }
      return `[${all.join()}]`
    }
    if (places.length === 1) return this.#value(field, behindTag(reader, places[0]!), level)
    // One after the other they are the same as one message with all of their fields.
    const contents = places.map(place => behindTag(reader, place).inner().rest())
    return this.message(field.message!, WireReader.of(Buffer.concat(contents)), level + 1)
  }

  /** An entry of a map: its key as a name, and its value. Either may be missing, and then is the default of its type. */
  #entry(type: MessageType, reader: WireReader, level: number): string {
    const [keyField, valueField] = [type.fields.get(1) ?? broken(), type.fields.get(2) ?? broken()]
    if (keyField.message) broken()
    const found = fieldsOf(type, reader)
    const textOf = (field: Field) => {
      const one = found.find(other => other.field === field)
      return one ? this.#field(one, reader, level) : this.default(field, level)
    }
    const key = textOf(keyField)
    return `${key.startsWith('"') ? key : `"${key}"`}:${textOf(valueField)}`
  }

  /** The value of a field that is missing. */
  default(field: Field, level: number): string {
    if (field.type === TYPE.string || field.type === TYPE.bytes) return '""'
    if (field.message) return this.message(field.message, WireReader.of(NOTHING), level + 1)
    if (!field.enum) return zeroText(field.type, this.#options.textIntegers)
    const { names } = field.enum
    return enumText(field, names.has(0) ? 0 : (names.keys().next().value ?? 0))
  }

  /** The value at `reader.p`, which moves behind it. */
  #value(field: Field, reader: WireReader, level: number): string {
    if (field.type === TYPE.message) {
      if (this.#room < 0) broken()
      return this.message(field.message!, reader.inner(), level + 1)
    }
    const text = this.#scalar(field, reader)
    this.#room -= text.length + 1
    return this.#room < 0 ? broken() : text
  }

  #scalar(field: Field, reader: WireReader): string {
    if (field.type === TYPE.string) return JSON.stringify(reader.text('utf8'))
    if (field.type === TYPE.bytes) return `"${reader.text('base64')}"`
    if (field.type === TYPE.enum) return enumText(field, reader.varint() | 0)
    return scalarText(reader, field.type, this.#options.textIntegers)
  }
}

const NOTHING = Buffer.alloc(0)

function enumText(field: Field, number: number): string {
  if (field.enum!.name === 'google.protobuf.NullValue') return 'null'
  return field.enum!.names.get(number) ?? String(number)
}

function behindTag(reader: WireReader, place: number): WireReader {
  reader.at(place).varint()
  return reader
}

/** The fields of a message in the order in which they come. Of those of a oneof, the last one counts. */
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

/** The field of a tag; undefined if the type has none, or its wire type does not fit. */
function fieldOf(type: MessageType, tag: number): Field | undefined {
  const field = type.fields.get(tag >>> 3)
  if (!field) return undefined
  const wire = WIRE_TYPES[field.type] ?? -1
  if (wire === (tag & 7)) return field
  return wire >= 0 && field.isRepeated && (tag & 7) === BYTES ? field : undefined
}
