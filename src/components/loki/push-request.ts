import { type Encoded, encodedEvent, eventText, roomFor, writtenFrom } from '../../core/codecs/encode.js'
import { column, EVENT_ESCAPED, LayoutWriter, nanosColumn } from '../../core/codecs/layout.js'
import type { ComponentContext } from '../../core/component.js'
import { DeliveryError } from '../../core/errors.js'
import type { EventBatch } from '../../core/event/batch.js'
import { EventTime } from '../../core/event/event-time.js'
import { isConstant, sharedReaders, TemplateMembers } from '../../core/template.js'
import type { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { sizeOfAll } from '../../lib/formats/parts.js'
import { SpareBytes } from '../../lib/formats/spare-bytes.js'
import { theKernel } from '../../lib/kernel/kernel.js'
import { EntryLines } from './entry-lines.js'
import type { LokiOptions } from './options.js'
import { ProtobufPush } from './protobuf-push.js'

/** After this time without an event, a stream may be forgotten to make room for other streams. */
const IDLE_MS = 3_600_000
const FORGET_EVERY_MS = 10_000
/** Maximum bytes of all label values that a stream keeps in memory. Loki accepts 2,048 per value. */
const LONGEST_LABELS = 16 * 1024
const OTHER = 'other'
/** The label of events without labels. Loki gives it to streams that do not name their service. */
const UNKNOWN = '"service_name":"unknown_service"'
/** Typical bytes of an entry, without its line and metadata. */
const ENTRY_ROOM = 32
/** Closes a stream, and also closes the body. */
const END = Buffer.from(']}')

interface Stream {
  /** The labels as JSON. */
  readonly labels: string
  readonly hasNoLabels?: boolean
  usedAt: number
}

/**
 * The body of a push request: `{"streams":[{"stream":LABELS,"values":[[TIME,LINE,METADATA], …]}]}`, or the same as
 * protobuf. A request has only events of one stream, with one exception: a request for the stream `other` may contain
 * events that now have their own streams.
 */
export class PushRequest {
  readonly #options: LokiOptions
  readonly #context: ComponentContext
  readonly #labels: TemplateMembers
  readonly #metadata: TemplateMembers
  readonly #time: EventTime
  /** Writes entries in JSON. */
  readonly #json: LayoutWriter
  readonly #protobuf: ProtobufPush | undefined
  /** Writes most entries in protobuf. Undefined if the kernel cannot run, or if entries have metadata. */
  readonly #kernel: EntryLines | undefined
  /** Streams by the values of their labels. */
  readonly #streams = new Map<string, Stream>()
  /** The stream for events beyond `max_streams`. */
  readonly #other: Stream
  readonly #spare = new SpareBytes()
  #forgotAt = Number.NEGATIVE_INFINITY

  constructor(options: LokiOptions, context: ComponentContext) {
    this.#options = options
    this.#context = context
    const field = sharedReaders(context.field)
    this.#labels = new TemplateMembers(options.labels, field)
    this.#metadata = new TemplateMembers(options.structured_metadata, field)
    this.#time = new EventTime(field(options.timestamp))
    const metadata = column(
      (batch, i) => this.#metadata.of(batch, i),
      members => (members === '' ? '"]' : `",{${members}}]`),
    )
    const hasMetadata = Object.keys(options.structured_metadata).length > 0
    const record = ['["', nanosColumn(this.#time), '","', EVENT_ESCAPED, hasMetadata ? metadata : '"]']
    this.#json = new LayoutWriter({ encoding: options.encoding, record, between: ',' })
    if (options.compression === 'snappy') this.#protobuf = new ProtobufPush()
    if (!hasMetadata) this.#kernel = theKernel()?.part(EntryLines)
    const other = Object.entries(options.labels).map(([name, template]) => [
      name,
      isConstant(template) ? template.parts.join('') : OTHER,
    ])
    this.#other = { labels: JSON.stringify(Object.fromEntries(other)), usedAt: 0 }
  }

  encode(request: readonly EventBatch[]): Encoded {
    const streams = new Map<string, GrowingBytes>()
    const now = this.#context.clock.now()
    for (const batch of request) {
      // Finds all flags before the kernel writes entries, because finding flags may also use the kernel.
      for (let i = 0; i < batch.length; i++) batch.look(i)
      for (let i = 0; i < batch.length; ) {
        const stream = this.#streamOf(batch, i)
        stream.usedAt = now
        let values = streams.get(stream.labels)
        if (!values) streams.set(stream.labels, (values = this.#spare.take(roomFor(request, ENTRY_ROOM))))
        const from = i++
        while (i < batch.length && (this.isOneStream || this.#streamOf(batch, i) === stream)) i++
        if (this.#protobuf) this.#addProtobuf(batch, from, i, this.#protobuf, values)
        else this.#json.add(batch, from, i, values)
        if (stream === this.#other) this.#countOther(i - from)
        if (stream.hasNoLabels) this.#countUnknown(i - from)
      }
    }
    const release = () => {
      for (const values of streams.values()) this.#spare.give(values)
      streams.clear()
    }
    if (this.#protobuf) return { ...this.#protobuf.request(streams), release }
    const parts: Buffer[] = []
    for (const [labels, { bytes, length }] of streams) {
      parts.push(Buffer.from(`${parts.length === 0 ? '{"streams":[' : ','}{"stream":${labels},"values":[`))
      parts.push(bytes.subarray(0, length), END)
    }
    parts.push(END)
    return { parts, bytes: sizeOfAll(parts), release }
  }

  /** Adds the events [from, until) of a stream. */
  #addProtobuf(batch: EventBatch, from: number, until: number, protobuf: ProtobufPush, values: GrowingBytes): void {
    const { encoding } = this.#options
    const time = { unix: this.#time.unix, readTime: (i: number) => this.#time.readUnix(batch, i) }
    for (let i = from; i < until; ) {
      const lines = this.#kernel && writtenFrom(encoding, batch, i, until)
      const first = i
      if (lines) i = this.#kernel!.write(lines, i, time, values)
      if (i > first) continue
      const line = encodedEvent(encoding, batch, i)
      time.readTime(i)
      protobuf.add(values, time.unix, line, this.#metadata.of(batch, i++))
    }
  }

  /** Whether all events have the same labels. */
  get isOneStream(): boolean {
    return this.#labels.isConstant
  }

  lineOf(batch: EventBatch, i: number): string {
    return eventText(this.#options.encoding, batch, i)
  }

  nanosOf(batch: EventBatch, i: number): string {
    return this.#time.nanosOf(batch, i)
  }

  /** Returns the labels of the event's stream as JSON. Throws a DeliveryError if the label values are too long. */
  labelsOf(batch: EventBatch, i: number): string {
    return this.#streamOf(batch, i).labels
  }

  #streamOf(batch: EventBatch, i: number): Stream {
    const key = this.#labels.key(batch, i)
    if (key.length > LONGEST_LABELS) {
      const message = `the values of its labels are longer than ${LONGEST_LABELS} bytes`
      throw new DeliveryError(message, { failure: 'reject', reason: 'labels' })
    }
    const known = this.#streams.get(key)
    if (known) return known
    const now = this.#context.clock.now()
    if (this.#streams.size >= this.#options.max_streams) this.#forget(now)
    if (this.#streams.size >= this.#options.max_streams) return this.#other
    const labels = this.#labels.of(batch, i)
    const stream = { labels: `{${labels || UNKNOWN}}`, hasNoLabels: labels === '', usedAt: now }
    this.#streams.set(key, stream)
    return stream
  }

  #forget(now: number): void {
    if (now - this.#forgotAt < FORGET_EVERY_MS) return
    this.#forgotAt = now
    for (const [key, { usedAt }] of this.#streams) if (now - usedAt > IDLE_MS) this.#streams.delete(key)
  }

  #countOther(events: number): void {
    const help = 'Events beyond max_streams; the labels of their streams are "other".'
    this.#context.metrics.counter('sluice_loki_other_stream_events_total', help).value += events
  }

  #countUnknown(events: number): void {
    const help = 'Events for which all labels are empty; they have the label service_name="unknown_service".'
    const text =
      'sent an event as service_name="unknown_service", because all of its labels are empty; add a label with a default, as in ${.app:-none}'
    const counter = this.#context.metrics.counter('sluice_loki_unlabeled_events_total', help)
    if (counter.value === 0) this.#context.log.warn({ code: 'SLUICE_LOKI_UNLABELED' }, text)
    counter.value += events
  }
}
