import { type Bytes, type Encoded, encodedEvent, roomFor } from '../../core/codecs/encode.js'
import { JSON_OBJECTS } from '../../core/codecs/json.js'
import { column, EVENT, EVENT_MEMBERS, isoColumn, LayoutWriter, STABLE_ID } from '../../core/codecs/layout.js'
import type { ComponentContext } from '../../core/component.js'
import { dated, isDated } from '../../core/dated.js'
import type { EventBatch } from '../../core/event/batch.js'
import { EventTime } from '../../core/event/event-time.js'
import { parseFieldPath } from '../../core/event/field-path.js'
import { type FieldReader, MISSING } from '../../core/event/field-reader.js'
import { sharedReaders, TemplateMembers } from '../../core/template.js'
import { BoundedMap } from '../../lib/bounded-map.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { addUnique } from '../../lib/formats/json-members.js'
import { SpareBytes } from '../../lib/formats/spare-bytes.js'
import type { ElasticsearchOptions } from './options.js'

/** Typical number of bytes added to a document: the line before the document, and its time. */
const LINE_ROOM = 128
/** Maximum number of minutes whose indices are cached. */
const MOST_MINUTES = 64
/** By default, the server accepts 20 levels of objects. */
const MOST_LEVELS = 32

/** The body of a bulk request. Each event has a line `{"create":{"_index":…,"_id":…}}` and a line with the document. */
export class BulkRequest {
  /** Index and pipeline at a time. An event without a pipeline uses the pipeline of its index. */
  readonly #valuesAt: (time: string) => TemplateMembers
  readonly #values: TemplateMembers
  /** If the index has a date: the values by minutes since the epoch. */
  readonly #dated: BoundedMap<number, TemplateMembers> | undefined
  readonly #time: EventTime
  readonly #ownField: FieldReader
  readonly #ownTime: EventTime
  readonly #spare = new SpareBytes()
  /** Writes events with a field `@timestamp`, and events without it. */
  readonly #own: LayoutWriter
  readonly #timed: LayoutWriter
  readonly #clock: ComponentContext['clock']
  /** When documents were first written with unique names. Most events need not be searched for repeated names. */
  #uniqueFrom: number | undefined
  readonly #unique = new GrowingBytes()

  constructor({ action, index, pipeline, timestamp }: ElasticsearchOptions, context: ComponentContext) {
    const field = sharedReaders(context.field)
    this.#clock = context.clock
    this.#valuesAt = time => new TemplateMembers({ _index: dated(index, time), ...(pipeline && { pipeline }) }, field)
    this.#values = this.#valuesAt('')
    if (isDated(index)) this.#dated = new BoundedMap(MOST_MINUTES)
    this.#time = new EventTime(field(timestamp))
    this.#ownField = field(parseFieldPath('.@timestamp'))
    this.#ownTime = new EventTime(this.#ownField)
    const isConstant = this.#values.isConstant && !this.#dated
    const line = `{"${action}":{`
    const target = isConstant ? [line + this.#values.constant] : [line, column((batch, i) => this.targetOf(batch, i))]
    const head = [...target, ',"_id":"', STABLE_ID, '"}}\n']
    const time = isoColumn(this.#time)
    const encoding = JSON_OBJECTS
    this.#own = new LayoutWriter({ encoding, record: [...head, EVENT, '\n'] })
    this.#timed = new LayoutWriter({ encoding, record: [...head, '{"@timestamp":"', time, '"', EVENT_MEMBERS, '\n'] })
  }

  /** Index and pipeline of the event. */
  targetOf(batch: EventBatch, i: number): string {
    return this.#dated ? this.#datedOf(this.#dated, batch, i).of(batch, i) : this.#values.of(batch, i)
  }

  #datedOf(known: BoundedMap<number, TemplateMembers>, batch: EventBatch, i: number): TemplateMembers {
    const time = this.#hasTime(batch, i) ? this.#ownTime : this.#time
    const minute = Math.floor(time.secondsOf(batch, i) / 60)
    let values = known.get(minute)
    if (!values) known.set(minute, (values = this.#valuesAt(new Date(minute * 60_000).toISOString())))
    return values
  }

  /** From now on, sends the last value of a name that an object has twice. Returns for how many ms it has done so. */
  makeUnique(): number {
    const now = this.#clock.now()
    this.#uniqueFrom ??= now
    return now - this.#uniqueFrom
  }

  encode(request: readonly EventBatch[]): Encoded {
    const body = this.#spare.take(roomFor(request, LINE_ROOM))
    for (const batch of request)
      for (let i = 0; i < batch.length; ) {
        const hasTime = this.#hasTime(batch, i)
        const writer = hasTime ? this.#own : this.#timed
        const from = i++
        if (this.#uniqueFrom === undefined) {
          while (i < batch.length && this.#hasTime(batch, i) === hasTime) i++
          writer.add(batch, from, i, body)
        } else writer.addOne(batch, from, body, this.#uniqueOf(batch, from))
      }
    const parts = [body.bytes.subarray(0, body.length)]
    return { parts, bytes: body.length, release: () => this.#spare.give(body) }
  }

  #hasTime(batch: EventBatch, i: number): boolean {
    return this.#ownField.load(batch, i) !== MISSING
  }

  #uniqueOf(batch: EventBatch, i: number): Bytes {
    const { bytes, start, end } = encodedEvent(JSON_OBJECTS, batch, i)
    this.#unique.clear()
    addUnique(this.#unique, bytes, start, end, undefined, MOST_LEVELS)
    return { bytes: this.#unique.bytes, start: 0, end: this.#unique.length }
  }
}
