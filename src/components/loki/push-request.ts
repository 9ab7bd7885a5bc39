import { addEventText, type Encoded, eventText } from '../../core/codecs/encode.js'
import type { ComponentContext } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import { EventTime } from '../../core/event/event-time.js'
import type { FieldReader } from '../../core/event/field-reader.js'
import { type CompiledTemplate, compileTemplate, isConstant, type Template } from '../../core/template.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import type { LokiOptions } from './destination.js'

/** After this time without an event, a stream makes room for others. */
const IDLE_MS = 3_600_000
const FORGET_EVERY_MS = 10_000
const OTHER = 'other'
/** Between two values: it is in none that a label can have. */
const SEPARATOR = Buffer.from([0])
/** Of a stream, and of the body. */
const END = Buffer.from(']}')

interface Value {
  readonly name: string
  readonly template: Template
  readonly compiled: CompiledTemplate
}

/** A stream: its labels as JSON. */
interface Stream {
  readonly labels: string
  usedAt: number
}

/**
 * The body of a push request: `{"streams":[{"stream":LABELS,"values":[[TIME,LINE,METADATA], …]}]}`. Its events are of one
 * stream, apart from those that had no room when they were divided, and whose stream has room now.
 */
export class PushRequest {
  readonly #options: LokiOptions
  readonly #context: ComponentContext
  readonly #labels: readonly Value[]
  /** Those with values of fields. */
  readonly #variable: readonly Value[]
  readonly #metadata: readonly Value[]
  readonly #time: EventTime
  /** By the values of their labels. */
  readonly #streams = new Map<string, Stream>()
  /** The stream of events of streams for which there is no room. */
  readonly #other: Stream
  #forgotAt = Number.NEGATIVE_INFINITY
  readonly #text = new GrowingBytes()

  constructor(options: LokiOptions, context: ComponentContext) {
    this.#options = options
    this.#context = context
    const readers = new Map<string, FieldReader>()
    const field: ComponentContext['field'] = path => {
      const reader = readers.get(path.text) ?? context.field(path)
      readers.set(path.text, reader)
      return reader
    }
    const valuesOf = (templates: Readonly<Record<string, Template>>) =>
      Object.entries(templates).map(([name, template]) => ({
        name,
        template,
        compiled: compileTemplate(template, field),
      }))
    this.#labels = valuesOf(options.labels)
    this.#variable = this.#labels.filter(({ template }) => !isConstant(template))
    this.#metadata = valuesOf(options.structured_metadata)
    this.#time = new EventTime(field(options.timestamp))
    const other = this.#labels.map(({ name, template }) => [
      name,
      isConstant(template) ? template.parts.join('') : OTHER,
    ])
    this.#other = { labels: JSON.stringify(Object.fromEntries(other)), usedAt: 0 }
  }

  encode(request: readonly EventBatch[]): Encoded {
    const streams = new Map<string, GrowingBytes>()
    for (const batch of request) for (let i = 0; i < batch.length; i++) this.#add(batch, i, streams)
    const parts: Buffer[] = []
    for (const [labels, { bytes, length }] of streams) {
      parts.push(Buffer.from(`${parts.length === 0 ? '{"streams":[' : ','}{"stream":${labels},"values":[`))
      parts.push(bytes.subarray(0, length), END)
    }
    parts.push(END)
    return { parts, bytes: parts.reduce((sum, { length }) => sum + length, 0) }
  }

  #add(batch: EventBatch, i: number, streams: Map<string, GrowingBytes>): void {
    const stream = this.#streamOf(batch, i)
    const { labels } = stream
    if (stream === this.#other) this.#countOther()
    let values = streams.get(labels)
    if (!values) streams.set(labels, (values = new GrowingBytes()))
    values.addText(`${values.length === 0 ? '' : ','}["${this.nanosOf(batch, i)}","`)
    addEventText(this.#options.encoding, batch, i, values)
    const metadata = this.#metadata.length === 0 ? '{}' : this.#json(this.#metadata, batch, i)
    values.addText(metadata === '{}' ? '"]' : `",${metadata}]`)
  }

  lineOf(batch: EventBatch, i: number): string {
    return eventText(this.#options.encoding, batch, i)
  }

  /** Nanoseconds since the epoch. */
  nanosOf(batch: EventBatch, i: number): string {
    return this.#time.nanosOf(batch, i)
  }

  /** The labels of the stream of an event, as JSON. */
  labelsOf(batch: EventBatch, i: number): string {
    return this.#streamOf(batch, i).labels
  }

  #streamOf(batch: EventBatch, i: number): Stream {
    const now = this.#context.clock.now()
    const key = this.#key(batch, i)
    const known = this.#streams.get(key)
    if (known) {
      known.usedAt = now
      return known
    }
    if (this.#streams.size >= this.#options.max_streams) this.#forget(now)
    if (this.#streams.size >= this.#options.max_streams) return this.#other
    const stream = { labels: this.#json(this.#labels, batch, i), usedAt: now }
    this.#streams.set(key, stream)
    return stream
  }

  /** What distinguishes its stream from others. */
  #key(batch: EventBatch, i: number): string {
    this.#text.clear()
    for (const { compiled } of this.#variable) {
      compiled.append(batch, i, this.#text)
      this.#text.add(SEPARATOR, 0, 1)
    }
    return this.#text.bytes.toString('latin1', 0, this.#text.length)
  }

  #forget(now: number): void {
    if (now - this.#forgotAt < FORGET_EVERY_MS) return
    this.#forgotAt = now
    for (const [key, { usedAt }] of this.#streams) if (now - usedAt > IDLE_MS) this.#streams.delete(key)
  }

  #countOther(): void {
    const help = 'Events in streams beyond max_streams, which got the label "other".'
    this.#context.metrics.counter('sluice_loki_other_stream_events_total', help).value++
  }

  #json(values: readonly Value[], batch: EventBatch, i: number): string {
    let json = ''
    for (const { name, compiled } of values) {
      this.#text.clear()
      compiled.append(batch, i, this.#text)
      const { bytes, length } = this.#text
      if (length > 0) json += `${json === '' ? '' : ','}"${name}":${JSON.stringify(bytes.toString('utf8', 0, length))}`
    }
    return `{${json}}`
  }
}
