import { highOf, lowOf, WireWriter } from '../../core/codecs/protobuf/protobuf-output.js'
import { BYTES, FIXED_32, FIXED_64, VARINT } from '../../core/codecs/protobuf/protobuf-wire.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { writeBytes } from '../../lib/formats/json-string.js'
import { addValue } from './any-value.js'
import type { JsonAttribute, RecordField, RecordGroup, RecordWriter } from './records.js'

/** Field numbers of AnyValue. */
const [STRING, BOOL, INTEGER, DOUBLE, LIST, MAP] = [1, 2, 3, 4, 5, 6]
const [KEY, VALUE] = [1, 2]
/** Typical bytes of a record's length prefix. */
const RECORD_ROOM = 2
/** Maximum bytes of the field number and the length before a text. The field number is below 16. */
const MOST_HEAD = 11
/**
 * Values in `#open` that are not the start of a message. NOTHING stands for attributes, which are not a message. PAIR
 * stands for a pair, which is closed together with its value. RECORD stands for a record, which starts at `#record`.
 */
const [NOTHING, PAIR, RECORD] = [-1, -2, -3]

export class ProtobufRecords implements RecordWriter {
  readonly contentType = 'application/x-protobuf'
  readonly #wire = new WireWriter()
  /** The starts of the open messages. */
  readonly #open: number[] = []
  #record = 0

  get to(): GrowingBytes {
    return this.#wire.to
  }

  set to(records: GrowingBytes) {
    this.#wire.to = records
  }

  #begin(number: number): void {
    this.#wire.tag(number, BYTES)
    this.#open.push(this.#wire.begin())
  }

  openRecord(): void {
    this.#wire.tag(2, BYTES)
    this.#record = this.#wire.begin(RECORD_ROOM)
    this.#open.push(RECORD)
  }

  openBody(): void {
    this.#begin(5)
  }

  openAttributes(): void {
    this.#open.push(NOTHING)
  }

  openAttribute(b: Buffer, start: number, end: number): void {
    this.#pair(6, b, start, end)
  }

  /** Computes all lengths before writing, so that bytes need not be moved later. */
  textAttribute(name: Buffer, nameStart: number, nameEnd: number, b: Buffer, start: number, end: number): void {
    const { to } = this
    const [ofName, ofText] = [nameEnd - nameStart, end - start]
    const ofValue = 1 + lengthSize(ofText) + ofText
    const ofKey = 1 + lengthSize(ofName) + ofName
    to.reserve(ofKey + ofValue + 3 * MOST_HEAD)
    this.#head(6, ofKey + 1 + lengthSize(ofValue) + ofValue)
    this.#head(KEY, ofName)
    to.length = writeBytes(name, nameStart, nameEnd, to.bytes, to.length)
    this.#head(VALUE, ofValue)
    this.#head(STRING, ofText)
    to.length = writeBytes(b, start, end, to.bytes, to.length)
  }

  openMap(): void {
    this.#begin(MAP)
  }

  openMember(b: Buffer, start: number, end: number): void {
    this.#pair(1, b, start, end)
  }

  openList(): void {
    this.#begin(LIST)
  }

  openItem(): void {
    this.#begin(1)
  }

  #pair(number: number, b: Buffer, start: number, end: number): void {
    this.#begin(number)
    this.#bytes(KEY, b, start, end)
    this.#open.push(PAIR)
    this.#begin(VALUE)
  }

  close(): void {
    const place = this.#open.pop()!
    if (place === NOTHING) return
    if (place === RECORD) {
      this.#wire.end(this.#record, RECORD_ROOM)
      return
    }
    this.#wire.end(place)
    if (this.#open.at(-1) !== PAIR) return
    this.#open.pop()
    this.#wire.end(this.#open.pop()!)
  }

  time({ number }: RecordField, seconds: number, nanos: number): void {
    // The nanoseconds need 61 bits, but a double has only 53. So the two halves of the seconds are multiplied
    // separately, without loss.
    const upper = Math.floor(seconds / 0x1_0000) * 1e9
    const lower = (upper % 0x1_0000) * 0x1_0000 + (seconds % 0x1_0000) * 1e9 + nanos
    this.#wire.tag(number, FIXED_64)
    const { to } = this
    to.reserve(8)
    to.bytes.writeUInt32LE(lower % 0x1_0000_0000, to.length)
    to.bytes.writeUInt32LE(Math.floor(upper / 0x1_0000) + Math.floor(lower / 0x1_0000_0000), to.length + 4)
    to.length += 8
  }

  number({ number, isFixed }: RecordField, value: number): void {
    this.#wire.tag(number, isFixed ? FIXED_32 : VARINT)
    if (isFixed) this.#wire.fixed(value, 4)
    else this.#wire.varint(value)
  }

  word({ number }: RecordField, text: string): void {
    const bytes = Buffer.from(text)
    this.#bytes(number, bytes, 0, bytes.length)
  }

  id({ number }: RecordField, hex: string): void {
    const bytes = Buffer.from(hex, 'hex')
    this.#bytes(number, bytes, 0, bytes.length)
  }

  #bytes(number: number, b: Buffer, start: number, end: number): void {
    const { to } = this
    to.reserve(end - start + MOST_HEAD)
    this.#head(number, end - start)
    to.length = writeBytes(b, start, end, to.bytes, to.length)
  }

  text(b: Buffer, start: number, end: number): void {
    this.#bytes(STRING, b, start, end)
  }

  bool(value: boolean): void {
    this.#wire.tag(BOOL, VARINT)
    this.#wire.varint(value ? 1 : 0)
  }

  integer(value: number | bigint): void {
    this.#wire.tag(INTEGER, VARINT)
    this.#wire.varint(lowOf(value), highOf(value))
  }

  double(value: number): void {
    this.#wire.tag(DOUBLE, FIXED_64)
    this.#wire.double(value)
  }

  request(groups: Iterable<RecordGroup>): Buffer[] {
    return [...groups].flatMap(({ resource, scope, records }) => {
      const ofResource = written(this, () => {
        this.#begin(1)
        this.#attributes(1, resource)
        this.close()
      })
      const ofScope = written(this, () => {
        if (!scope) return
        this.#begin(1)
        this.word({ number: 1, name: 'name' }, scope.name)
        if (scope.version) this.word({ number: 2, name: 'version' }, scope.version)
        this.#attributes(3, scope.attributes)
        this.close()
      })
      const size = ofScope.length + records.length
      const scopeHead = written(this, () => this.#head(2, size))
      const head = written(this, () => this.#head(1, ofResource.length + scopeHead.length + size))
      return [Buffer.concat([head, ofResource, scopeHead, ofScope]), records.bytes.subarray(0, records.length)]
    })
  }

  #attributes(number: number, attributes: readonly JsonAttribute[]): void {
    for (const [name, json] of attributes) {
      this.#pair(number, Buffer.from(name), 0, Buffer.byteLength(name))
      addValue(this, json, 0, json.length - 1)
      this.close()
    }
  }

  /** Writes a field number and the size of the value. The caller must have reserved room for both. */
  #head(number: number, size: number): void {
    const { to } = this
    to.bytes[to.length++] = (number << 3) | BYTES
    if (size < 0x80) to.bytes[to.length++] = size
    else this.#wire.varint(size)
  }
}

const lengthSize = (size: number) =>
  size < 0x80 ? 1 : size < 0x4000 ? 2 : size < 0x20_0000 ? 3 : size < 0x1000_0000 ? 4 : 5

function written(records: RecordWriter, write: () => void): Buffer {
  const out = new GrowingBytes()
  records.to = out
  write()
  return out.bytes.subarray(0, out.length)
}
