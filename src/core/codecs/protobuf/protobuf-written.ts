import { OPEN_ARRAY, OPEN_OBJECT, QUOTE } from '../../../lib/formats/ascii.js'
import { tokenText } from '../../../lib/formats/json-token.js'
import { TimeZone } from '../../../lib/formats/time-zone.js'
import { TIME_FORMATS } from '../../time-formats.js'
import type { MessageField, MessageType } from './protobuf-descriptor.js'
import { highOf, lowOf, type WireWriter } from './protobuf-output.js'
import { VARINT, WRAPPERS } from './protobuf-wire.js'

/** Writes the parts of a message from JSON (protobuf-write.ts). `b`: the bytes of the JSON. */
interface MessageWriter {
  readonly wire: WireWriter
  readonly b: Buffer
  endOf(p: number): number
  field(field: MessageField, p: number, level: number): boolean
  bytes(bytes: Buffer): void
}

type Written = (writer: MessageWriter, type: MessageType, p: number, level: number) => boolean

const N = 0x6e
const T = 0x74
const F = 0x66
const UTC = new TimeZone('UTC')

function putTime({ wire }: MessageWriter, seconds: number, nanos: number): boolean {
  if (!Number.isSafeInteger(seconds)) return false
  if (seconds !== 0) {
    wire.tag(1, VARINT)
    wire.varint(lowOf(seconds), highOf(seconds))
  }
  if (nanos !== 0) {
    wire.tag(2, VARINT)
    wire.varint(lowOf(nanos), highOf(nanos))
  }
  return true
}

const nanosOf = (fraction: string) => Number(fraction.slice(0, 9).padEnd(9, '0'))

/** Reads a text in RFC 3339, or seconds since the epoch. */
const timestamp: Written = (writer, _type, p) => {
  const text = tokenText(writer.b, p, writer.endOf(p))
  const time = TIME_FORMATS[writer.b[p] === QUOTE ? 'rfc3339' : 'unix']!(text, UTC, 0)
  return time !== undefined && putTime(writer, Math.floor(time.ms / 1000), nanosOf(time.fraction))
}

/** Reads seconds; in a text, an `s` may follow them. */
const duration: Written = (writer, _type, p) => {
  const text = tokenText(writer.b, p, writer.endOf(p))
  const found = /^(-?)(\d{1,12})(?:\.(\d{1,9}))?s?$/.exec(text)
  if (!found) return false
  const [, sign = '', seconds = '', fraction = ''] = found
  const factor = sign === '-' ? -1 : 1
  return putTime(writer, factor * Number(seconds), factor * nanosOf(fraction))
}

/** Writes a message that has one field. The JSON is the value of that field. */
const only: Written = (writer, type, p, level) => {
  const field = type.fields.get(1)
  return field !== undefined && writer.field(field, p, level)
}

const onlyIn =
  (open: number): Written =>
  (writer, type, p, level) =>
    writer.b[p] === open && only(writer, type, p, level)

const value: Written = (writer, type, p, level) => {
  const byte = writer.b[p]
  if (byte === N) {
    writer.wire.tag(1, VARINT)
    writer.wire.varint(0)
    return true
  }
  const number =
    byte === QUOTE ? 3 : byte === T || byte === F ? 4 : byte === OPEN_OBJECT ? 5 : byte === OPEN_ARRAY ? 6 : 2
  const field = type.fields.get(number)
  return field !== undefined && writer.field(field, p, level)
}

const fieldMask: Written = (writer, type, p) => {
  const field = type.fields.get(1)
  if (!field || writer.b[p] !== QUOTE) return false
  for (const path of tokenText(writer.b, p, 0).split(',').filter(Boolean)) {
    writer.wire.tag(1, 2)
    writer.bytes(Buffer.from(path.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)))
  }
  return true
}

/** The types that have their own JSON form. */
export const WRITTEN: ReadonlyMap<string, Written> = new Map(
  Object.entries({
    Timestamp: timestamp,
    Duration: duration,
    Struct: onlyIn(OPEN_OBJECT),
    ListValue: onlyIn(OPEN_ARRAY),
    Value: value,
    FieldMask: fieldMask,
    // The type Any is never written, because it does not determine the type of its content.
    Any: () => false,
    ...Object.fromEntries(WRAPPERS.map(name => [name, only])),
  } satisfies Record<string, Written>).map(([name, written]) => [`google.protobuf.${name}`, written]),
)
