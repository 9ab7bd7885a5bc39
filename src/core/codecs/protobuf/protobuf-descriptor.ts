import { WantedNames } from '../../../lib/formats/json-scan.js'
import { BYTES, NotProtobuf, VARINT, WireReader } from './protobuf-wire.js'

/** The types of fields, by their number in descriptors. */
export const TYPE = {
  double: 1,
  float: 2,
  int64: 3,
  uint64: 4,
  int32: 5,
  fixed64: 6,
  fixed32: 7,
  bool: 8,
  string: 9,
  group: 10,
  message: 11,
  bytes: 12,
  uint32: 13,
  enum: 14,
  sfixed32: 15,
  sfixed64: 16,
  sint32: 17,
  sint64: 18,
} as const

export interface EnumType {
  readonly name: string
  /** The names, as JSON. */
  readonly names: ReadonlyMap<number, string>
  readonly numbers: ReadonlyMap<string, number>
}

export interface MessageField {
  /** The name in the definition. */
  readonly name: string
  readonly jsonName: string
  readonly number: number
  readonly type: number
  readonly isRepeated: boolean
  readonly isPacked: boolean
  /** The same number for all fields of a oneof. A message contains at most one of the fields that share a place. */
  readonly place: number
  message: MessageType | undefined
  enum: EnumType | undefined
}

export interface MessageType {
  readonly name: string
  readonly isMapEntry: boolean
  /** Number of fields. Each oneof counts as one. */
  places: number
  readonly fields: Map<number, MessageField>
  /** Both names of each field. `named` has each field at the slots of its names. */
  readonly wanted: WantedNames
  readonly named: MessageField[]
}

export interface Types {
  readonly messages: ReadonlyMap<string, MessageType>
}

/** Reads a FileDescriptorSet, as `protoc --descriptor_set_out` writes it. Throws if it is invalid or incomplete. */
export function readTypes(bytes: Buffer): Types {
  const reading = new DescriptorReader()
  try {
    reading.read(bytes)
  } catch (error) {
    if (error instanceof NotProtobuf) throw new Error('is not a set of descriptors', { cause: error })
    throw error
  }
  reading.link()
  return reading
}

/** A field in a message of the descriptor. It has either a number in `value`, or `bytes`. */
interface Part {
  readonly number: number
  readonly value: number
  readonly bytes: Buffer
}

const NOTHING = Buffer.alloc(0)

function partsOf(bytes: Buffer): Part[] {
  const reader = WireReader.of(bytes)
  const parts: Part[] = []
  while (reader.p < reader.end) {
    const tag = reader.varint()
    const number = tag >>> 3
    if ((tag & 7) === VARINT) parts.push({ number, value: reader.varint(), bytes: NOTHING })
    else if ((tag & 7) === BYTES) parts.push({ number, value: 0, bytes: reader.inner().rest() })
    else reader.skip(tag)
  }
  return parts
}

const all = (parts: readonly Part[], number: number) => parts.filter(part => part.number === number)
const textOf = (parts: readonly Part[], number: number) => all(parts, number).at(-1)?.bytes.toString() ?? ''
const numberOf = (parts: readonly Part[], number: number) => all(parts, number).at(-1)?.value

class DescriptorReader implements Types {
  readonly messages = new Map<string, MessageType>()
  readonly #enums = new Map<string, EnumType>()
  /** The fields whose types are known only by name, until all types are read. */
  readonly #links: { readonly field: MessageField; readonly type: string; readonly of: string }[] = []

  read(bytes: Buffer): void {
    for (const { bytes: file } of all(partsOf(bytes), 1)) {
      const parts = partsOf(file)
      const name = textOf(parts, 2)
      const packs = textOf(parts, 12) === 'proto3' || numberOf(parts, 14) !== undefined
      this.#scope(name === '' ? '' : `.${name}`, parts, { messages: 4, enums: 5, packs })
    }
    if (this.messages.size === 0) throw new NotProtobuf()
  }

  /**
   * `messages`, `enums`: the field numbers of these parts. `packs`: repeated fields are packed unless an option says
   * otherwise.
   */
  #scope(prefix: string, parts: readonly Part[], of: { messages: number; enums: number; packs: boolean }): void {
    for (const { bytes } of all(parts, of.enums)) this.#enum(prefix, partsOf(bytes))
    for (const { bytes } of all(parts, of.messages)) this.#message(prefix, partsOf(bytes), of.packs)
  }

  #enum(prefix: string, parts: readonly Part[]): void {
    const values = all(parts, 2).map(({ bytes }) => partsOf(bytes))
    const entries = values.map(value => [textOf(value, 1), numberOf(value, 2) ?? 0] as const)
    const name = `${prefix}.${textOf(parts, 1)}`
    // If several names have the same number, the first of these names is written.
    const names = new Map(entries.map(([text, number]) => [number, JSON.stringify(text)] as const).reverse())
    this.#enums.set(name, { name: name.slice(1), names, numbers: new Map(entries) })
  }

  #message(prefix: string, parts: readonly Part[], packs: boolean): void {
    const name = `${prefix}.${textOf(parts, 1)}`
    const isMapEntry = all(parts, 7).some(({ bytes }) => numberOf(partsOf(bytes), 7) === 1)
    const fields = new Map<number, MessageField>()
    const oneofs = new Map<number, number>()
    let places = 0
    for (const { bytes } of all(parts, 2)) {
      const own = partsOf(bytes)
      const oneof = numberOf(own, 9)
      const place = (oneof === undefined ? undefined : oneofs.get(oneof)) ?? places++
      if (oneof !== undefined) oneofs.set(oneof, place)
      const field = fieldOf(own, place, packs)
      fields.set(field.number, field)
      const isLinked = field.type === TYPE.message || field.type === TYPE.enum
      if (isLinked) this.#links.push({ field, type: textOf(own, 6), of: name.slice(1) })
    }
    const type = {
      name: name.slice(1),
      isMapEntry,
      places,
      fields,
      wanted: new WantedNames(),
      named: [] as MessageField[],
    }
    for (const field of fields.values()) {
      for (const one of [field.name, field.jsonName]) type.named[type.wanted.slot(one)] ??= field
    }
    this.messages.set(type.name, type)
    this.#scope(name, parts, { messages: 3, enums: 4, packs })
  }

  link(): void {
    for (const { field, type, of } of this.#links) {
      if (field.type === TYPE.message) field.message = this.messages.get(type.slice(1))
      else field.enum = this.#enums.get(type)
      if (field.message || field.enum) continue
      throw new Error(
        `lacks ${type.slice(1)}, which ${of} uses; write the file with protoc --include_imports, or buf build`,
      )
    }
  }
}

function fieldOf(parts: readonly Part[], place: number, packs: boolean): MessageField {
  const name = textOf(parts, 1)
  const options = all(parts, 8).flatMap(({ bytes }) => partsOf(bytes))
  const packed = numberOf(options, 2)
  return {
    name,
    jsonName: textOf(parts, 10) || name.replace(/_+(.?)/g, (_, letter: string) => letter.toUpperCase()),
    number: numberOf(parts, 3) ?? 0,
    type: numberOf(parts, 5) ?? 0,
    isRepeated: numberOf(parts, 4) === 3,
    isPacked: packed === undefined ? packs : packed === 1,
    place,
    message: undefined,
    enum: undefined,
  }
}
