import type { Bytes, Encoded } from '../../core/codecs/encode.js'
import { highOf, lowOf, WireWriter } from '../../core/codecs/protobuf/protobuf-output.js'
import { BYTES, VARINT } from '../../core/codecs/protobuf/protobuf-wire.js'
import type { EventTime } from '../../core/event/event-time.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { sizeOfAll } from '../../lib/formats/parts.js'

/** Typical bytes of an entry's length prefix. */
const ENTRY_ROOM = 2
/** The last second that Loki's signed 64-bit numbers can express in nanoseconds since the epoch. */
const LAST = 9_223_372_035
/** An invalid time, which Loki rejects. Replaces times beyond Loki's range, because Loki would store wrong times. */
const NO_TIME = { seconds: 2 ** 40, nanos: 0 }

/**
 * Push requests as protobuf: `PushRequest { repeated Stream streams = 1 }`, `Stream { string labels = 1; repeated Entry
 * entries = 2 }`, `Entry { Timestamp timestamp = 1; string line = 2; repeated Pair metadata = 3 }`, `Timestamp { int64
 * seconds = 1; int32 nanos = 2 }`, `Pair { string name = 1; string value = 2 }`.
 */
export class ProtobufPush {
  readonly #wire = new WireWriter()

  /** `unix`: time since the epoch. `metadata`: members of a JSON object. */
  add(to: GrowingBytes, unix: EventTime['unix'], line: Bytes, metadata: string): void {
    const wire = this.#wire
    wire.to = to
    wire.tag(2, BYTES)
    const entry = wire.begin(ENTRY_ROOM)
    wire.tag(1, BYTES)
    const time = wire.begin()
    const { seconds, nanos } = Math.abs(unix.seconds) > LAST ? NO_TIME : unix
    wire.tag(1, VARINT)
    wire.varint(lowOf(seconds), highOf(seconds))
    wire.tag(2, VARINT)
    wire.varint(nanos)
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

  /** `streams`: for each stream, labels as JSON, and encoded entries. */
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
    return { parts, bytes: sizeOfAll(parts) }
  }
}

/** Returns labels as `{app="cart", level="info"}`. Values are JSON strings, in which lone surrogates are replaced. */
function selectorOf(labels: string): string {
  const members = Object.entries(JSON.parse(labels) as Record<string, string>)
  return `{${members.map(([name, value]) => `${name}=${JSON.stringify(value.toWellFormed())}`).join(', ')}}`
}
