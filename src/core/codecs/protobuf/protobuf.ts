import { createHash } from 'node:crypto'
import { z } from 'zod'
import { readRegularSync } from '../../../lib/files/read-regular.js'
import { shownPath } from '../../../lib/files/shown-path.js'
import type { GrowingBytes } from '../../../lib/formats/growing-bytes.js'
import type { Framing, RecordScanner } from '../../../lib/lines/framed-splitter.js'
import { NearestName } from '../../../lib/nearest.js'
import { type Codec, defineCodec } from '../../codec.js'
import { errorText } from '../../errors.js'
import { filePath, type Reach, reaches } from '../../options/reach.js'
import { RecordCodec } from '../record-codec.js'
import { type MessageType, readTypes, type Types } from './protobuf-descriptor.js'
import { ProtobufJson } from './protobuf-json.js'
import { KNOWN } from './protobuf-known.js'
import { LengthScanner, varintSize } from './protobuf-scanner.js'
import { ProtobufWriter } from './protobuf-write.js'

/** Size of a length prefix that is not a varint. */
const LENGTH_BYTES = 4
const LARGEST_DESCRIPTOR = 64 * 1024 * 1024
const STRUCT = 'google.protobuf.Struct'

const options = z.strictObject({
  descriptor_file: filePath()
    .optional()
    .describe(
      'File with the definition of the message: a FileDescriptorSet, written by `protoc --include_imports --descriptor_set_out=events.binpb events.proto` or `buf build -o events.binpb`. It is read at the start and at a reload.',
    ),
  descriptor: reaches('nothing', z.base64())
    .optional()
    .describe('The bytes of the FileDescriptorSet in base64, instead of `descriptor_file`.'),
  message: reaches('nothing', z.string().min(1)).describe(
    'Full name of the message that each record contains, as in `acme.logs.Event`.',
  ),
  framing: z
    .enum(['varint', 'length_delimited', 'none'])
    .default('varint')
    .describe(
      'Length prefix of each record. varint: as written by `writeDelimitedTo`. length_delimited: four bytes, big-endian. none: without a prefix; each body of the source http is one message.',
    ),
  field_names: z
    .enum(['proto', 'json'])
    .default('proto')
    .describe(
      'How fields are named in events. proto: as in the definition (`took_ms`). json: by their JSON names (`tookMs`). Both kinds of names are accepted when a destination encodes events with this codec.',
    ),
  int64: z
    .enum(['string', 'number'])
    .default('string')
    .describe(
      'How 64-bit integers are read. string: as in the JSON of Protocol Buffers. number: as a number with all digits, which some JSON readers round.',
    ),
})
type Options = z.output<typeof options>

interface Loaded {
  readonly digest: string
  readonly reach: Reach | undefined
  readonly type: MessageType
  readonly read: Framing['readRecord']
}

class Protobuf extends RecordCodec {
  readonly framing: Framing
  readonly #given: Options
  readonly #writer = new ProtobufWriter(({ name }) => this.onLeftOut?.(name))
  #loaded: Loaded | undefined

  constructor(given: Options) {
    const { descriptor, descriptor_file: file, message, ...rest } = given
    const others = Object.entries(rest).filter(([name, value]) => value !== PRESETS[name])
    const source = file === undefined ? { descriptor } : { descriptor_file: file }
    super(protobuf, { ...source, message, ...Object.fromEntries(others) })
    if ((file === undefined) === (descriptor === undefined))
      throw new Error('protobuf needs either descriptor_file or descriptor, with the definition of the message')
    this.#given = given
    const isVarint = given.framing === 'varint'
    const isWhole = given.framing === 'none'
    const headSize: Framing['headSize'] = (b, start, end) => (isVarint ? varintSize(b, start, end) : LENGTH_BYTES)
    this.framing = {
      isWhole,
      scanner: () => (isWhole ? WHOLE : new LengthScanner(isVarint)),
      readRecord: (b, start, end, to) => this.#current().read(b, start, end, to),
      ...(!isWhole && { headSize }),
    }
    if (descriptor !== undefined) this.load()
  }

  override load(reach?: Reach): void {
    const { descriptor_file: file, message, field_names: fieldNames, int64 } = this.#given
    const name = file === undefined ? 'descriptor' : `descriptor_file ${shownPath(file)}`
    const bytes = this.#bytes(name, reach)
    const reader = new ProtobufJson(typesOf(bytes, name), { fieldNames, textIntegers: int64 === 'string' })
    const type = typeOf(reader.types, message, name)
    const read: Loaded['read'] = (b, start, end, to) => reader.write(type, b, start, end, to)
    this.#loaded = { digest: digestOf(bytes), reach, type, read }
  }

  #bytes(name: string, reach: Reach | undefined): Buffer {
    const { descriptor_file: file, descriptor } = this.#given
    if (file === undefined) return Buffer.from(descriptor!, 'base64')
    try {
      return readRegularSync(reach ? reach.realFile(file) : file, LARGEST_DESCRIPTOR)
    } catch (cause) {
      throw new Error(`${name} cannot be read (${errorText(cause)})`, { cause })
    }
  }

  /** Throws if `load` was not called before, because only `load` knows which files may be read. */
  #current(): Loaded {
    if (!this.#loaded) throw new Error('the codec protobuf is used before it was loaded')
    return this.#loaded
  }

  /** Also compares the contents of the files, so that a reload applies a changed file. */
  override isSame(other: Codec): boolean {
    if (!super.isSame(other) || !(other instanceof Protobuf)) return false
    const known = this.#loaded ?? other.#loaded
    return known === undefined || this.#digest(known) === other.#digest(known)
  }

  #digest({ reach }: Loaded): string {
    try {
      return this.#loaded?.digest ?? digestOf(this.#bytes('', reach))
    } catch {
      return ''
    }
  }

  protected readAlone(b: Buffer, start: number, end: number, to: GrowingBytes): boolean {
    return this.#current().read(b, start, end, to)
  }

  protected writeRecord(json: Buffer, start: number, end: number, to: GrowingBytes): void {
    const { type } = this.#current()
    const { wire } = this.#writer
    wire.to = to
    if (this.#given.framing === 'varint') {
      const content = wire.begin()
      this.#writer.write(type, json, start, end, to)
      wire.end(content)
      return
    }
    const before = to.length
    wire.fixed(0, LENGTH_BYTES)
    this.#writer.write(type, json, start, end, to)
    to.bytes.writeUInt32BE(to.length - before - LENGTH_BYTES, before)
  }
}

const WHOLE: RecordScanner = { find: (_b, _p, to) => to }
const PRESETS: Readonly<Record<string, string>> = { framing: 'varint', field_names: 'proto', int64: 'string' }
const lastPart = (name: string) => name.slice(name.lastIndexOf('.') + 1)
const digestOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

function typesOf(bytes: Buffer, name: string): Types {
  try {
    return readTypes(bytes)
  } catch (error) {
    throw new Error(`${name} ${errorText(error)}`, { cause: error })
  }
}

function typeOf({ messages }: Types, wanted: string, name: string): MessageType {
  const type = messages.get(wanted)
  if (type && (type.name === STRUCT || !KNOWN.has(type.name))) return type
  if (type) throw new Error(`message ${wanted} is not an object in JSON`)
  throw new Error(`${name} has no message ${wanted}; did you mean ${nearOf(wanted, [...messages.keys()])}?`)
}

/** Returns the name that the user probably meant. Well-known types come last, because few records use them. */
function nearOf(wanted: string, names: readonly string[]): string {
  const own = names.filter(name => !name.startsWith('google.protobuf.'))
  const near = new NearestName()
  return (
    own.find(name => lastPart(name) === lastPart(wanted)) ??
    near.find(wanted, own) ??
    near.find(wanted, names) ??
    own[0] ??
    names[0]!
  )
}

export const protobuf = defineCodec({
  name: 'protobuf',
  summary: 'Each record is a message of Protocol Buffers, preceded by its length.',
  notes:
    'The message becomes JSON by the standard mapping: enums by their names, bytes in base64, maps as objects, Timestamp in RFC 3339, Duration as `1.5s`, and Struct, Value, wrappers, FieldMask and Any as the values that they stand for. ' +
    'Fields that are not set, fields that the definition lacks, and groups are omitted. proto2, proto3 and editions are read. No field is added to the event.\n\n' +
    'A record that is not this message, or whose JSON would be more than 64 times its size, cannot be read: `.message` is the record in base64, without its length. A record of more than `max_line_bytes` is skipped and counted in `sluice_skipped_records_total`. An impossible length is an error, because Sluice cannot find the next record. The error names its place. ' +
    'The source `tcp` then closes the connection, `http` answers 400 and accepts no events of the body, `stdin` ends, and `file` stays at this place and reports the error. A record that has not ended waits for its rest, and is read again after a restart.\n\n' +
    'As an encoding: each event is a record. Fields are found by both of their names. Fields that the message does not have are left out. Values that do not fit their field, and Any, are also left out, counted in `sluice_left_out_values_total` and logged. A text field takes any value as JSON, a number field takes digits in a text, and a Timestamp takes seconds since the epoch, too. ' +
    '`raw` writes the JSON of the record. Where lines are text, as in `tests` and in the input of `explain`, a record is its JSON; `parse` reads a message in base64, without its length.',
  options,
  form: 'object',
  expects: 'a message of Protocol Buffers in base64, or a JSON object',
  undecodedHelp: 'Records that are not messages of the type. They are kept as text in base64.',
  joinsLines: false,
  contentType: 'application/x-protobuf',
  leavesOut: {
    metric: 'sluice_left_out_values_total',
    help: 'Values that were left out of records, because they do not fit their field. Each attempt to write an event counts.',
    code: 'SLUICE_VALUE_LEFT_OUT',
    log: 'left a value out of a record, because the value does not fit its field; compare the events with the definition',
  },
  mediaTypes: ['application/protobuf', 'application/vnd.google.protobuf', 'application/octet-stream'],
  examples: [
    {
      title: 'A message of three fields: string message = 1, int32 took_ms = 2, and repeated string tags = 3',
      yaml: 'descriptor: CmEKB2UucHJvdG8iTgoFRXZlbnQSGAoHbWVzc2FnZRgBIAEoCVIHbWVzc2FnZRIXCgd0b29rX21zGAIgASgFUgZ0b29rTXMSEgoEdGFncxgDIAMoCVIEdGFnc2IGcHJvdG8z\nmessage: Event\n',
      record: '0d 0a 02 68 69 10 0c 1a 01 61 1a 02 62 63',
      line: '{"message":"hi","took_ms":12,"tags":["a","bc"]}',
      event: { message: 'hi', took_ms: 12, tags: ['a', 'bc'] },
    },
  ],
  create: parsed => new Protobuf(parsed),
})
