import { BYTES, broken, FIXED_32, FIXED_64, VARINT, WireReader } from '../../core/codecs/protobuf/protobuf-wire.js'
import { CLOSE_ARRAY, CLOSE_OBJECT, COLON, COMMA, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from '../../lib/formats/ascii.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { addFloat, addInteger } from '../../lib/formats/json-numbers.js'
import { slotOf } from '../../lib/formats/json-scan.js'
import { escapeInto, MOST_ESCAPED } from '../../lib/formats/json-string.js'
import { rfc3339 } from '../../lib/formats/rfc3339.js'
import type { ExportLines } from './export-lines.js'
import { MOST_LEVELS, nestedAttributes, RECORD_NAMES, type RecordFieldName } from './record-json.js'

const tag = (number: number, wire: number) => (number << 3) | wire

/** Fields of a record, and of the messages around it. */
const [RESOURCE, SCOPES] = [tag(1, BYTES), tag(2, BYTES)]
const [SCOPE, RECORDS] = [tag(1, BYTES), tag(2, BYTES)]
const [NAME, VERSION] = [tag(1, BYTES), tag(2, BYTES)]
const [KEY, VALUE] = [tag(1, BYTES), tag(2, BYTES)]
const ATTRIBUTES = tag(6, BYTES)
/** After this many records, other work gets its turn. */
const RECORDS_AT_ONCE = 4096
const BODY = tag(5, BYTES)
/** Kinds of values. */
const [STRING, BOOL, INTEGER, DOUBLE] = [tag(1, BYTES), tag(2, VARINT), tag(3, VARINT), tag(4, FIXED_64)]
const [LIST, MAP, BINARY] = [tag(5, BYTES), tag(6, BYTES), tag(7, BYTES)]
const MOST_VALUE_TAG = tag(8, 0)
/** Above this number, or below its opposite, the upper half of an integer does not fit into a double. */
const MOST_SAFE = 2 ** 20
const NOWHERE = -1

const nameOf = (name: RecordFieldName) => Buffer.from(`"${name}":`)
const [TIMESTAMP, OBSERVED, MESSAGE] = [nameOf('timestamp'), nameOf('observed_timestamp'), nameOf('message')]
const [FLAGS, TAKEN] = [nameOf('flags'), nameOf('attributes')]
/** Members by the number of a record's field. */
const TEXTS: Readonly<Record<number, Buffer>> = {
  3: nameOf('severity'),
  9: nameOf('trace_id'),
  10: nameOf('span_id'),
  12: nameOf('event_name'),
}
const NUMBERS: Readonly<Record<number, Buffer>> = {
  2: nameOf('severity_number'),
  7: nameOf('dropped_attributes_count'),
}
/** Shorter texts are escaped at once, with room for the maximum size. */
const SHORT = 2048

/** Checks the messages around the records, and yields between many of them. Throws NotProtobuf. */
export function* checkExport(b: Buffer, start: number, end: number): Generator<undefined> {
  let records = 0
  for (const group of messagesOf(new WireReader(b, start, end), tag(1, BYTES))) {
    for (const scope of messagesOf(group, SCOPES)) {
      for (const _ of messagesOf(scope, RECORDS)) if (++records % RECORDS_AT_ONCE === 0) yield
    }
  }
}

/** Adds the records of a valid request to `lines`, which yields them. */
export function* readExport(b: Buffer, start: number, end: number, lines: ExportLines) {
  const reader = new RecordReader(lines.json)
  for (const group of messagesOf(new WireReader(b, start, end), tag(1, BYTES))) {
    const resource = resourceOf(reader, lastOf(group, RESOURCE))
    for (const records of messagesOf(group, SCOPES)) {
      const scope = lines.scope(resource, scopeOf(reader, lastOf(records, SCOPE)))
      for (const record of messagesOf(records, RECORDS)) {
        lines.add(scope, () => reader.record(record))
        if (lines.isFull) yield lines.portion()
      }
    }
  }
  yield lines.portion()
}

/** Yields a reader of each message with this tag; it is only valid until the next one. */
function* messagesOf({ b, p, end }: WireReader, wanted: number): Generator<WireReader> {
  const reader = new WireReader(b, p, end)
  const inner = new WireReader(b, p, end)
  while (reader.p < reader.end) {
    const found = reader.varint()
    if (found !== wanted) {
      reader.skip(found)
      continue
    }
    const size = reader.length()
    inner.p = reader.take(size)
    inner.end = inner.p + size
    yield inner
  }
}

function lastOf(reader: WireReader, wanted: number): WireReader | undefined {
  let last: WireReader | undefined
  for (const { b, p, end } of messagesOf(reader, wanted)) last = new WireReader(b, p, end)
  return last
}

function resourceOf(reader: RecordReader, resource: WireReader | undefined): string | undefined {
  return resource && nestedAttributes(reader.pairs(resource, tag(1, BYTES)))
}

function scopeOf(reader: RecordReader, scope: WireReader | undefined): string | undefined {
  if (!scope) return undefined
  const [name, version] = [NAME, VERSION].map(wanted => lastOf(scope, wanted)?.rest().toString())
  const attributes = reader.pairs(scope, tag(3, BYTES)).map(([key, json]) => `${JSON.stringify(key)}:${json}`)
  const members = [
    ...(name ? [`"name":${JSON.stringify(name)}`] : []),
    ...(version ? [`"version":${JSON.stringify(version)}`] : []),
    ...(attributes.length > 0 ? [`"attributes":{${attributes.join(',')}}`] : []),
  ]
  return `{${members.join(',')}}`
}

/** Writes records as JSON. Makes no object for a record or an attribute. */
class RecordReader {
  #wire = WireReader.of(Buffer.alloc(0))
  #to: GrowingBytes
  /** The attributes of the current record with the names of fields. */
  readonly #taken = new GrowingBytes()

  constructor(to: GrowingBytes) {
    this.#to = to
  }

  /** Adds the members of a record to its opened object. */
  record(reader: WireReader): void {
    this.#wire = reader
    this.#taken.clear()
    const to = this.#to
    const { b } = reader
    let [time, observed] = [NOWHERE, NOWHERE]
    while (reader.p < reader.end) {
      const found = reader.varint()
      const [number, wire] = [found >>> 3, found & 7]
      if (found === ATTRIBUTES) this.#attribute()
      else if (found === BODY) this.#message()
      else if (wire === FIXED_64 && number === 1) time = reader.take(8)
      else if (wire === FIXED_64 && number === 11) observed = reader.take(8)
      else if (wire === BYTES && TEXTS[number]) this.#text(TEXTS[number]!, number === 9 || number === 10)
      else if (wire === VARINT && NUMBERS[number]) this.#number(NUMBERS[number]!, reader.varint() >>> 0)
      else if (wire === FIXED_32 && number === 8) this.#number(FLAGS, b.readUInt32LE(reader.take(4)))
      else reader.skip(found)
    }
    const known = isZero(b, time) ? observed : time
    if (!isZero(b, known)) this.#time(TIMESTAMP, b, known)
    if (!isZero(b, observed)) this.#time(OBSERVED, b, observed)
    if (this.#taken.length === 0) return
    this.#member(TAKEN)
    to.addByte(OPEN_OBJECT)
    to.add(this.#taken.bytes, 0, this.#taken.length)
    to.addByte(CLOSE_OBJECT)
  }

  /** The attributes of a resource or a scope: names, and values as JSON. */
  pairs(of: WireReader, wanted: number): [string, string][] {
    const found: [string, string][] = []
    const lines = this.#to
    const json = new GrowingBytes()
    this.#to = json
    for (const pair of messagesOf(of, wanted)) {
      this.#wire = pair
      json.clear()
      const [start, end] = this.#pair()
      this.#anyValue(0)
      found.push([pair.b.toString('utf8', start, end), json.bytes.toString('utf8', 0, json.length)])
    }
    this.#to = lines
    return found
  }

  #member(name: Buffer): void {
    const to = this.#to
    if (to.bytes[to.length - 1] !== OPEN_OBJECT) to.addByte(COMMA)
    to.add(name, 0, name.length)
  }

  #number(name: Buffer, number: number): void {
    if (number === 0) return
    this.#member(name)
    addInteger(this.#to, number)
  }

  #time(name: Buffer, b: Buffer, at: number): void {
    const [low, high] = [b.readUInt32LE(at), b.readUInt32LE(at + 4)]
    // 2^32 nanoseconds are 4 seconds and 294,967,296 nanoseconds. The product would need more bits than a double has.
    const large = high * 294_967
    const rest = (large % 1e6) * 1000 + high * 296 + low
    const text = rfc3339(high * 4 + Math.floor(large / 1e6) + Math.floor(rest / 1e9), rest % 1e9)
    this.#member(name)
    this.#to.addText(`"${text}"`)
  }

  #text(name: Buffer, isId: boolean): void {
    const reader = this.#wire
    const size = reader.length()
    const start = reader.take(size)
    if (size === 0) return
    this.#member(name)
    if (isId) this.#to.addText(`"${reader.b.toString('hex', start, start + size)}"`)
    else this.#quoted(start, start + size)
  }

  /** The body. A record whose body is an empty value has no message. */
  #message(): void {
    const outer = this.#enter()
    if (this.#wire.p < this.#wire.end) {
      this.#member(MESSAGE)
      this.#anyValue(0)
    }
    this.#leave(outer)
  }

  #attribute(): void {
    const outer = this.#enter()
    const [start, end] = this.#pair()
    const lines = this.#to
    const isTaken = slotOf(this.#wire.b, start, end, RECORD_NAMES) >= 0
    if (isTaken) this.#to = this.#taken
    const to = this.#to
    if (to.length > 0 && to.bytes[to.length - 1] !== OPEN_OBJECT) to.addByte(COMMA)
    this.#quoted(start, end)
    to.addByte(COLON)
    this.#anyValue(0)
    this.#to = lines
    this.#leave(outer)
  }

  /** Moves into the message at the reader's place. Returns where the message around it ends. */
  #enter(): number {
    const reader = this.#wire
    const outer = reader.end
    const size = reader.length()
    reader.end = reader.p + size
    return outer
  }

  #leave(outer: number): void {
    const reader = this.#wire
    reader.p = reader.end
    reader.end = outer
  }

  /** Reads a pair, and moves the reader to its value. Returns the range of its key. */
  #pair(): [number, number] {
    const reader = this.#wire
    let [start, end, value, valueEnd] = [reader.p, reader.p, reader.end, reader.end]
    while (reader.p < reader.end) {
      const found = reader.varint()
      if (found !== KEY && found !== VALUE) {
        reader.skip(found)
        continue
      }
      const size = reader.length()
      const from = reader.take(size)
      if (found === KEY) [start, end] = [from, from + size]
      else [value, valueEnd] = [from, from + size]
    }
    reader.p = value
    reader.end = valueEnd
    return [start, end]
  }

  /** Writes the value from the reader's place to its end. Of several values, the last one counts. */
  #anyValue(level: number): void {
    if (level > MOST_LEVELS) broken()
    const [reader, to] = [this.#wire, this.#to]
    const before = to.length
    while (reader.p < reader.end) {
      const found = reader.varint()
      if (found >= MOST_VALUE_TAG) {
        reader.skip(found)
        continue
      }
      to.length = before
      this.#valueOf(found, level)
    }
    if (to.length === before) to.addText('null')
  }

  #valueOf(found: number, level: number): void {
    const [reader, to] = [this.#wire, this.#to]
    if (found === STRING || found === BINARY) {
      const size = reader.length()
      const start = reader.take(size)
      if (found === STRING) this.#quoted(start, start + size)
      else to.addText(`"${reader.b.toString('base64', start, start + size)}"`)
    } else if (found === BOOL) to.addText((reader.varint() | reader.high) === 0 ? 'false' : 'true')
    else if (found === INTEGER) {
      const low = reader.varint() >>> 0
      const high = reader.high | 0
      const isSafe = high < MOST_SAFE && high >= -MOST_SAFE
      addInteger(to, isSafe ? high * 2 ** 32 + low : (BigInt(high) << 32n) | BigInt(low))
    } else if (found === DOUBLE) addFloat(to, reader.b.readDoubleLE(reader.take(8)))
    else if (found === LIST || found === MAP) {
      const outer = this.#enter()
      this.#items(found === MAP, level)
      this.#leave(outer)
    } else broken()
  }

  #items(isMap: boolean, level: number): void {
    const [reader, to] = [this.#wire, this.#to]
    to.addByte(isMap ? OPEN_OBJECT : OPEN_ARRAY)
    const first = to.length
    while (reader.p < reader.end) {
      const found = reader.varint()
      if (found !== tag(1, BYTES)) {
        reader.skip(found)
        continue
      }
      if (to.length > first) to.addByte(COMMA)
      const outer = this.#enter()
      const inner = reader.end
      if (isMap) {
        const [start, end] = this.#pair()
        this.#quoted(start, end)
        to.addByte(COLON)
      }
      this.#anyValue(level + 1)
      reader.end = inner
      this.#leave(outer)
    }
    to.addByte(isMap ? CLOSE_OBJECT : CLOSE_ARRAY)
  }

  #quoted(start: number, end: number): void {
    const to = this.#to
    const size = end - start
    to.reserve(size < SHORT ? size * MOST_ESCAPED + 2 : 1)
    to.bytes[to.length++] = QUOTE
    if (size < SHORT) to.length = escapeInto(to.bytes, to.length, this.#wire.b, start, end)
    else to.addEscaped(this.#wire.b, start, end)
    to.addByte(QUOTE)
  }
}

const isZero = (b: Buffer, at: number) => at === NOWHERE || (b.readUInt32LE(at) | b.readUInt32LE(at + 4)) === 0
