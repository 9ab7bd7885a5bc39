import type { Encoded } from '../../core/codecs/encode.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { highOf, lowOf, WireWriter } from '../../lib/formats/protobuf-output.js'
import { BYTES, VARINT } from '../../lib/formats/protobuf-wire.js'

/** Bytes of the length of a usual entry. */
const ENTRY_ROOM = 2
const NANO_DIGITS = 9
const ZERO = 0x30
const SECOND = 10n ** 9n
/** Last second whose nanoseconds since the epoch fit into Loki's signed 64-bit numbers. */
const LAST = 9_223_372_035
/** An invalid time, for which Loki refuses the request. It would store a time outside its range as another one. */
const NO_TIME = { seconds: 2 ** 40, rest: 0 }

/**
 * Push requests as protobuf: `PushRequest { repeated Stream streams = 1 }`, `Stream { string labels = 1; repeated Entry
 * entries = 2 }`, `Entry { Timestamp timestamp = 1; string line = 2; repeated Pair metadata = 3 }`, `Timestamp { int64
 * seconds = 1; int32 nanos = 2 }`, `Pair { string name = 1; string value = 2 }`.
 */
export class ProtobufPush {
  readonly #wire = new WireWriter()

  /** Adds an entry. `nanos`: since the epoch. `metadata`: members of a JSON object. */
  add(to: GrowingBytes, nanos: string, line: { bytes: Buffer; start: number; end: number }, metadata: string): void {
    const wire = this.#wire
    wire.to = to
    wire.tag(2, BYTES)
    const entry = wire.begin(ENTRY_ROOM)
    wire.tag(1, BYTES)
    const time = wire.begin()
    const { seconds, rest } = timeOf(nanos)
    wire.tag(1, VARINT)
    wire.varint(lowOf(seconds), highOf(seconds))
    wire.tag(2, VARINT)
    wire.varint(rest)
    wire.end(time)
    wire.tag(2, BYTES)
    wire.varint(line.end - line.start)
    to.add(line.bytes, line.start, line.end)
    if (metadata !== '') this.#addMetadata(metadata)
    wire.end(entry, ENTRY_ROOM)
  }

  #addMetadata(json: string): void {
    const wire = this.#wire
    for (const [name, value] of Object.entries(JSON.parse(`{${json}}`) as Record<string, string>)) {
      wire.tag(3, BYTES)
      const pair = wire.begin()
      this.#addText(1, name)
      this.#addText(2, value)
      wire.end(pair)
    }
  }

  #addText(number: number, text: string): void {
    this.#wire.tag(number, BYTES)
    this.#wire.varint(Buffer.byteLength(text))
    this.#wire.to.addText(text)
  }

  /** `streams`: the entries by the labels, as JSON. */
  request(streams: Iterable<readonly [labels: string, entries: GrowingBytes]>): Encoded {
    const parts = [...streams].flatMap(([labels, { bytes, length }]) => {
      const [ofLabels, head] = [new GrowingBytes(), new GrowingBytes()]
      this.#wire.to = ofLabels
      this.#addText(1, selectorOf(labels))
      this.#wire.to = head
      this.#wire.tag(1, BYTES)
      this.#wire.varint(ofLabels.length + length)
      head.add(ofLabels.bytes, 0, ofLabels.length)
      return [head.bytes.subarray(0, head.length), bytes.subarray(0, length)]
    })
    return { parts, bytes: parts.reduce((sum, { length }) => sum + length, 0) }
  }
}

/** Whole seconds, and the rest in nanoseconds. */
function timeOf(nanos: string): { seconds: number | bigint; rest: number } {
  if (nanos.startsWith('-')) {
    const rest = ((BigInt(nanos) % SECOND) + SECOND) % SECOND
    const seconds = (BigInt(nanos) - rest) / SECOND
    return seconds < -LAST ? NO_TIME : { seconds, rest: Number(rest) }
  }
  const end = Math.max(0, nanos.length - NANO_DIGITS)
  const seconds = digitsOf(nanos, 0, end)
  return seconds > LAST ? NO_TIME : { seconds, rest: digitsOf(nanos, end, nanos.length) }
}

/** Parses digits without creating a string. */
function digitsOf(text: string, start: number, end: number): number {
  let number = 0
  for (let i = start; i < end; i++) number = number * 10 + text.charCodeAt(i) - ZERO
  return number
}

/** Labels as `{app="cart", level="info"}`. Strings have the escapes of JSON, except for lone surrogates. */
function selectorOf(labels: string): string {
  const members = Object.entries(JSON.parse(labels) as Record<string, string>)
  return `{${members.map(([name, value]) => `${name}=${JSON.stringify(value.toWellFormed())}`).join(', ')}}`
}
