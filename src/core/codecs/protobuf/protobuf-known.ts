import type { GrowingBytes } from '../../../lib/formats/growing-bytes.js'
import { fractionOf, rfc3339 } from '../../../lib/formats/rfc3339.js'
import { type MessageField, type MessageType, TYPE, type Types } from './protobuf-descriptor.js'
import { BYTES, broken, MOST_NESTING, VARINT, WireReader, WRAPPERS } from './protobuf-wire.js'

/** Writes the parts of a message as JSON (protobuf-json.ts). */
interface JsonWriter {
  readonly types: Types
  readonly to: GrowingBytes
  message(type: MessageType, reader: WireReader, level: number): void
  members(type: MessageType, reader: WireReader, level: number): void
  unnamed(type: MessageType, reader: WireReader, level: number): boolean
  default(field: MessageField, level: number): void
}

type Known = (json: JsonWriter, type: MessageType, reader: WireReader, level: number) => void

const MOST_NANOS = 999_999_999
const NOTHING = Buffer.alloc(0)

/** Reads fields 1 and 2 of a message: seconds and nanoseconds. */
function timeOf(reader: WireReader): { seconds: number; nanos: number } {
  let [seconds, nanos] = [0, 0]
  while (reader.p < reader.end) {
    const tag = reader.varint()
    if (tag === ((1 << 3) | VARINT)) {
      const low = reader.varint()
      seconds = (reader.high | 0) * 2 ** 32 + (low >>> 0)
    } else if (tag === ((2 << 3) | VARINT)) nanos = reader.varint() | 0
    else reader.skip(tag)
  }
  return { seconds, nanos }
}

const timestamp: Known = ({ to }, _type, reader) => {
  const { seconds, nanos } = timeOf(reader)
  to.addText(`"${rfc3339(seconds, nanos) ?? broken()}"`)
}

const duration: Known = ({ to }, _type, reader) => {
  const { seconds, nanos } = timeOf(reader)
  if (Math.abs(nanos) > MOST_NANOS || !Number.isSafeInteger(seconds)) broken()
  const sign = seconds < 0 || nanos < 0 ? '-' : ''
  to.addText(`"${sign}${Math.abs(seconds)}${fractionOf(Math.abs(nanos))}s"`)
}

const otherwise =
  (text: string): Known =>
  (json, type, reader, level) => {
    if (!json.unnamed(type, reader, level)) json.to.addText(text)
  }

const wrapper: Known = (json, type, reader, level) => {
  if (!json.unnamed(type, reader, level)) json.default(type.fields.get(1) ?? broken(), level)
}

/** Writes paths, separated by commas, with names in the usual form of JSON. */
const fieldMask: Known = (json, type, reader, level) => {
  const { to } = json
  const before = to.length
  const field = type.fields.get(1)
  if (type.fields.size !== 1 || field?.type !== TYPE.string || !field.isRepeated) broken()
  if (!json.unnamed(type, reader, level)) to.addText('[]')
  const paths = JSON.parse(to.bytes.toString('utf8', before, to.length)) as string[]
  to.length = before
  const names = paths.map(path => path.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()))
  to.addText(JSON.stringify(names.join(',')))
}

/** Writes a message with the name of its type. For an unknown type, writes the bytes. */
const any: Known = (json, _type, reader, level) => {
  const { to } = json
  let url = ''
  let content = WireReader.of(NOTHING)
  while (reader.p < reader.end) {
    const tag = reader.varint()
    if (tag === ((1 << 3) | BYTES)) url = reader.text('utf8')
    else if (tag === ((2 << 3) | BYTES)) content = reader.inner()
    else reader.skip(tag)
  }
  if (level + 1 >= MOST_NESTING) broken()
  to.addText(`{"@type":${JSON.stringify(url)}`)
  const inner = json.types.messages.get(url.slice(url.lastIndexOf('/') + 1))
  if (!inner) to.addText(`,"value":"${content.rest().toString('base64')}"`)
  else if (KNOWN.has(inner.name)) {
    to.addText(',"value":')
    json.message(inner, content, level + 1)
  } else {
    const before = to.length
    to.addText(',')
    json.members(inner, content, level + 1)
    if (to.length === before + 1) to.length = before
  }
  to.addText('}')
}

/** The types that have their own JSON form. */
export const KNOWN: ReadonlyMap<string, Known> = new Map(
  Object.entries({
    Timestamp: timestamp,
    Duration: duration,
    Struct: otherwise('{}'),
    ListValue: otherwise('[]'),
    Value: otherwise('null'),
    FieldMask: fieldMask,
    Any: any,
    ...Object.fromEntries(WRAPPERS.map(name => [name, wrapper])),
  }).map(([name, known]) => [`google.protobuf.${name}`, known]),
)
