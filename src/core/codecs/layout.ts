import { CLOSE_OBJECT, COMMA } from '../../lib/formats/ascii.js'
import type { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { skipSpace } from '../../lib/formats/json-scan.js'
import { sizeOfAll } from '../../lib/formats/parts.js'
import { SpareBytes } from '../../lib/formats/spare-bytes.js'
import { theKernel } from '../../lib/kernel/kernel.js'
import { LineSums } from '../../lib/kernel/line-sums.js'
import type { EventBatch } from '../event/batch.js'
import { appendEventId, eventSum } from '../event/event-id.js'
import type { EventTime } from '../event/event-time.js'
import { type Bytes, type Encoded, type Encoding, encodedEvent, roomFor, writtenFrom } from './encode.js'
import { LayoutLines, PART_KIND, type RecordPart } from './layout-lines.js'

/** A part of the record of an event: a text that is the same for all events, a column, or the event itself. */
export type LayoutPart = string | Exclude<RecordPart, { readonly kind: 0 }>

/** The event as it is encoded. */
export const EVENT: LayoutPart = { kind: PART_KIND.event }
/** The encoded event as the content of a JSON string, without quotes. */
export const EVENT_ESCAPED: LayoutPart = { kind: PART_KIND.escaped }
/** The encoded event, which is a JSON object, without its first brace; after a comma if it has members. */
export const EVENT_MEMBERS: LayoutPart = { kind: PART_KIND.members }
/** The id of the event. */
export const STABLE_ID: LayoutPart = { kind: PART_KIND.id }

/** The time of the event, as `isoOf` of `time` returns it. */
export const isoColumn = (time: EventTime): LayoutPart => ({
  kind: PART_KIND.text,
  text: (batch, i) => time.isoOf(batch, i),
  written: (batch, i) => time.writtenIso(batch, i),
})

/** The time of the event in nanoseconds since the epoch. */
export const nanosColumn = (time: EventTime): LayoutPart => ({ kind: PART_KIND.nanos, time })

/**
 * A text for each event. `write` makes the text of a value, once while following events have the same value. Without
 * `write`, the value is the text.
 */
export function column(read: (batch: EventBatch, i: number) => string): LayoutPart
export function column<V extends string | number>(
  read: (batch: EventBatch, i: number) => V,
  write: (value: V) => string,
): LayoutPart
export function column<V extends string | number>(
  read: (batch: EventBatch, i: number) => V,
  write: (value: V) => string = String,
): LayoutPart {
  let last: V | undefined
  let text = ''
  return {
    kind: PART_KIND.text,
    text(batch, i) {
      const value = read(batch, i)
      if (value !== last) {
        text = write(value)
        last = value
      }
      return text
    },
  }
}

/**
 * Says how a destination writes events: as records that consist of parts, with `between` between them. For example, if
 * `time` is an EventTime:
 *
 *     const seconds = column((batch, i) => time.msOf(batch, i), ms => (ms / 1000).toFixed(3))
 *     return { url, contentType, records: { encoding, record: ['{"time":', seconds, ',"event":', EVENT, '}\n'] } }
 */
export interface Layout {
  readonly encoding: Encoding
  readonly record: readonly LayoutPart[]
  readonly between?: string
  /** What is before the first record, and after the last one. `texts`: as in `encode` of RequestFormat. */
  readonly before?: string | ((texts: Readonly<Record<string, string>>) => string)
  readonly after?: string
}

/** Writes events as records. The kernel writes events whose bytes exist, many in one call. */
export class LayoutWriter {
  readonly #encoding: Encoding
  readonly #parts: readonly RecordPart[]
  /** Bytes between records. They are the beginning of each record except the first. */
  readonly #between: number
  readonly #kernel: LayoutLines | undefined

  constructor({ encoding, record, between = '' }: Pick<Layout, 'encoding' | 'record' | 'between'>) {
    this.#encoding = encoding
    this.#between = Buffer.byteLength(between)
    const parts = between === '' ? record : [between, ...record]
    this.#parts = parts.map(part =>
      typeof part === 'string' ? { kind: PART_KIND.constant, bytes: Buffer.from(part) } : part,
    )
    const kernel = theKernel()
    // The code that writes ids uses the tables of the checksums.
    kernel?.part(LineSums)
    const lines = kernel?.part(LayoutLines)
    if (lines?.takes(this.#parts)) this.#kernel = lines
  }

  /** Adds the records of events [from, until). */
  add(batch: EventBatch, from: number, until: number, to: GrowingBytes): void {
    for (let i = from; i < until; ) {
      const lines = this.#kernel && writtenFrom(this.#encoding, batch, i, until)
      const first = i
      for (let end = i; lines && i < lines.length; i = end) {
        end = this.#kernel!.write(this.#parts, batch, lines, i, to, to.length === 0 ? this.#between : 0)
        if (end === i) break
      }
      if (i === first) this.addOne(batch, i++, to)
    }
  }

  /** Adds the record of an event. `event`: the encoded event. */
  addOne(batch: EventBatch, i: number, to: GrowingBytes, event?: Bytes): void {
    const isFirst = to.length === 0 && this.#between > 0
    for (const [n, part] of this.#parts.entries()) {
      if (part.kind === PART_KIND.constant) {
        if (n > 0 || !isFirst) to.add(part.bytes, 0, part.bytes.length)
      } else if (part.kind === PART_KIND.text) to.addText(part.text(batch, i))
      else if (part.kind === PART_KIND.nanos) to.addText(part.time.nanosOf(batch, i))
      else if (part.kind === PART_KIND.id) appendEventId(batch, i, eventSum(batch, i), to)
      else addEvent(part.kind, event ?? encodedEvent(this.#encoding, batch, i), to)
    }
  }
}

function addEvent(kind: RecordPart['kind'], { bytes, start, end }: Bytes, to: GrowingBytes): void {
  if (kind === PART_KIND.event) to.add(bytes, start, end)
  else if (kind === PART_KIND.escaped) to.addEscaped(bytes, start, end)
  else {
    const next = skipSpace(bytes, skipSpace(bytes, start, end) + 1, end)
    if (bytes[next] !== CLOSE_OBJECT) to.addByte(COMMA)
    to.add(bytes, next, end)
  }
}

/** Typical bytes of a record, without its event. */
const RECORD_ROOM = 128

/** Encodes requests whose bodies are records. */
export class LayoutBody {
  readonly #layout: Layout
  readonly #writer: LayoutWriter
  readonly #spare = new SpareBytes()

  constructor(layout: Layout) {
    this.#layout = layout
    this.#writer = new LayoutWriter(layout)
  }

  encode(request: readonly EventBatch[], texts: Readonly<Record<string, string>>): Encoded {
    const { before = '', after = '' } = this.#layout
    const records = this.#spare.take(roomFor(request, RECORD_ROOM))
    for (const batch of request) this.#writer.add(batch, 0, batch.length, records)
    const ends = [typeof before === 'string' ? before : before(texts), after].map(text => Buffer.from(text))
    const parts = [ends[0]!, records.bytes.subarray(0, records.length), ends[1]!].filter(({ length }) => length > 0)
    return { parts, bytes: sizeOfAll(parts), release: () => this.#spare.give(records) }
  }
}
