import { type Encoded, eventText } from '../../core/codecs/encode.js'
import type { ComponentContext } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import { EventTime } from '../../core/event/event-time.js'
import type { FieldReader } from '../../core/event/field-reader.js'
import { type CompiledTemplate, compileTemplate, type Template } from '../../core/template.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import type { LokiOptions } from './destination.js'

/** After this time without an event, a stream makes room for others. */
const IDLE_MS = 3_600_000
const OTHER = 'other'

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

/** The body of a push request: `{"streams":[{"stream":LABELS,"values":[[TIME,LINE,METADATA], …]}, …]}`. */
export class PushRequest {
  readonly #options: LokiOptions
  readonly #context: ComponentContext
  readonly #labels: readonly Value[]
  readonly #metadata: readonly Value[]
  readonly #time: EventTime
  /** By the values of their labels, the least recently used first. */
  readonly #streams = new Map<string, Stream>()
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
    this.#metadata = valuesOf(options.structured_metadata)
    this.#time = new EventTime(field(options.timestamp))
  }

  encode(request: readonly EventBatch[]): Encoded {
    const streams = new Map<string, string[]>()
    for (const batch of request)
      for (let i = 0; i < batch.length; i++) {
        const labels = this.labelsOf(batch, i)
        const values = streams.get(labels) ?? []
        streams.set(labels, values)
        const metadata = this.#metadata.length === 0 ? '{}' : this.#json(this.#metadata, batch, i)
        const line = JSON.stringify(this.lineOf(batch, i))
        values.push(`["${this.nanosOf(batch, i)}",${line}${metadata === '{}' ? '' : `,${metadata}`}]`)
      }
    const texts = [...streams].map(([labels, values]) => `{"stream":${labels},"values":[${values.join(',')}]}`)
    const body = Buffer.from(`{"streams":[${texts.join(',')}]}`)
    return { parts: [body], bytes: body.length }
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
    const now = this.#context.clock.now()
    const labels = this.#json(this.#labels, batch, i)
    const known = this.#streams.get(labels)
    if (known) {
      known.usedAt = now
      return known.labels
    }
    if (this.#streams.size >= this.#options.max_streams) this.#forget(now)
    const isOver = this.#streams.size >= this.#options.max_streams
    if (isOver) return this.#other()
    this.#streams.set(labels, { labels, usedAt: now })
    return labels
  }

  #forget(now: number): void {
    for (const [key, { usedAt }] of this.#streams) if (now - usedAt > IDLE_MS) this.#streams.delete(key)
  }

  /** The labels of events of streams for which there is no room. */
  #other(): string {
    const { metrics } = this.#context
    const help = 'Events in streams beyond max_streams, which got the label "other".'
    metrics.counter('sluice_loki_other_stream_events_total', help).value++
    const labels: Record<string, string> = {}
    for (const { name, template } of this.#labels) {
      const isConstant = template.parts.every(part => typeof part === 'string')
      labels[name] = isConstant ? template.parts.join('') : OTHER
    }
    return JSON.stringify(labels)
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
