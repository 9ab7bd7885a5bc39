import { type MessageType, TYPE } from './protobuf-descriptor.js'
import type { ProtobufJson } from './protobuf-json.js'
import { BYTES, broken, MOST_LEVELS, VARINT, WireReader } from './protobuf-wire.js'
import { fractionOf, rfc3339 } from './rfc3339.js'

/** The JSON of the message that the reader is of. */
type Known = (json: ProtobufJson, type: MessageType, reader: WireReader, level: number) => string

const MOST_NANOS = 999_999_999
const NOTHING = Buffer.alloc(0)

/** Fields 1 and 2 of a message: seconds and nanoseconds. */
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

const timestamp: Known = (_json, _type, reader) => {
  const { seconds, nanos } = timeOf(reader)
  return `"${rfc3339(seconds, nanos) ?? broken()}"`
}

const duration: Known = (_json, _type, reader) => {
  const { seconds, nanos } = timeOf(reader)
  if (Math.abs(nanos) > MOST_NANOS || !Number.isSafeInteger(seconds)) broken()
  const sign = seconds < 0 || nanos < 0 ? '-' : ''
  return `"${sign}${Math.abs(seconds)}${fractionOf(Math.abs(nanos))}s"`
}

const otherwise =
  (text: string): Known =>
  (json, type, reader, level) =>
    json.unnamed(type, reader, level) ?? text

const wrapper: Known = (json, type, reader, level) =>
  json.unnamed(type, reader, level) ?? json.default(type.fields.get(1) ?? broken(), level)

/** Paths, separated by commas, with names as JSON usually has them. */
const fieldMask: Known = (json, type, reader, level) => {
  const field = type.fields.get(1)
  if (type.fields.size !== 1 || field?.type !== TYPE.string || !field.isRepeated) broken()
  const paths = JSON.parse(json.unnamed(type, reader, level) ?? '[]') as string[]
  const names = paths.map(path => path.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()))
  return JSON.stringify(names.join(','))
}

/** A message with the name of its type; of a type that is not known, its bytes. */
const any: Known = (json, _type, reader, level) => {
  let url = ''
  let content = WireReader.of(NOTHING)
  while (reader.p < reader.end) {
    const tag = reader.varint()
    if (tag === ((1 << 3) | BYTES)) url = reader.text('utf8')
    else if (tag === ((2 << 3) | BYTES)) content = reader.inner()
    else reader.skip(tag)
  }
  if (level + 1 >= MOST_LEVELS) broken()
  const head = `{"@type":${JSON.stringify(url)}`
  const inner = json.types.messages.get(url.slice(url.lastIndexOf('/') + 1))
  if (!inner) return `${head},"value":"${content.rest().toString('base64')}"}`
  if (KNOWN.has(inner.name)) return `${head},"value":${json.message(inner, content, level + 1)}}`
  const members = json.members(inner, content, level + 1)
  return members === '' ? `${head}}` : `${head},${members}}`
}

/** The types that have a form of their own in JSON. */
export const KNOWN: ReadonlyMap<string, Known> = new Map(
  Object.entries({
    Timestamp: timestamp,
    Duration: duration,
    Struct: otherwise('{}'),
    ListValue: otherwise('[]'),
    Value: otherwise('null'),
    FieldMask: fieldMask,
    Any: any,
    ...Object.fromEntries(
      ['Double', 'Float', 'Int64', 'UInt64', 'Int32', 'UInt32', 'Bool', 'String', 'Bytes'].map(name => [
        `${name}Value`,
        wrapper,
      ]),
    ),
  }).map(([name, known]) => [`google.protobuf.${name}`, known]),
)
