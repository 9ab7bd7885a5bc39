import { type Bytes, type Encoded, encodedEvent, roomFor } from '../../core/codecs/encode.js'
import { JSON_OBJECTS } from '../../core/codecs/json.js'
import type { ComponentContext } from '../../core/component.js'
import { dated, isDated } from '../../core/dated.js'
import type { EventBatch } from '../../core/event/batch.js'
import { appendEventId, eventSums } from '../../core/event/event-id.js'
import { EventTime } from '../../core/event/event-time.js'
import { parseFieldPath } from '../../core/event/field-path.js'
import { type FieldReader, MISSING } from '../../core/event/field-reader.js'
import { sharedReaders, TemplateMembers } from '../../core/template.js'
import { BoundedMap } from '../../lib/bounded-map.js'
import { CLOSE_OBJECT, COMMA, LF, QUOTE } from '../../lib/formats/ascii.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { addUnique } from '../../lib/formats/json-members.js'
import { skipSpace } from '../../lib/formats/json-scan.js'
import { SpareBytes } from '../../lib/formats/spare-bytes.js'
import type { ElasticsearchOptions } from './options.js'

const AFTER_ID = Buffer.from('"}}\n')
const TIME = Buffer.from('{"@timestamp":"')
/** Typical number of bytes added to a document: the line before the document, and its time. */
const LINE_ROOM = 128
/** Maximum number of minutes whose indices are cached. */
const MOST_MINUTES = 64
/** By default, the server accepts 20 levels of objects. */
const MOST_LEVELS = 32

/** The body of a bulk request. Each event has a line `{"create":{"_index":…,"_id":…}}` and a line with the document. */
export class BulkRequest {
  /** The beginning of the line before a document. */
  readonly #action: string
  /** Index and pipeline at a time. An event without a pipeline uses the pipeline of its index. */
  readonly #valuesAt: (time: string) => TemplateMembers
  readonly #values: TemplateMembers
  /** If the index has a date: the values by minutes since the epoch. */
  readonly #dated: BoundedMap<number, TemplateMembers> | undefined
  readonly #time: EventTime
  readonly #ownField: FieldReader
  readonly #ownTime: EventTime
  readonly #spare = new SpareBytes()
  /**
   * The line before the last document, up to the id, and the values in that line. They are cached, because most
   * consecutive events have the same values.
   */
  #head = Buffer.alloc(0)
  #valuesOfHead: string | undefined
  readonly #clock: ComponentContext['clock']
  /** When documents were first written with unique names. Most events need not be searched for repeated names. */
  #uniqueFrom: number | undefined
  readonly #unique = new GrowingBytes()

  constructor({ action, index, pipeline, timestamp }: ElasticsearchOptions, context: ComponentContext) {
    const field = sharedReaders(context.field)
    this.#clock = context.clock
    this.#action = `{"${action}":{`
    this.#valuesAt = time => new TemplateMembers({ _index: dated(index, time), ...(pipeline && { pipeline }) }, field)
    this.#values = this.#valuesAt('')
    if (isDated(index)) this.#dated = new BoundedMap(MOST_MINUTES)
    this.#time = new EventTime(field(timestamp))
    this.#ownField = field(parseFieldPath('.@timestamp'))
    this.#ownTime = new EventTime(this.#ownField)
  }

  /** Index and pipeline of the event. */
  targetOf(batch: EventBatch, i: number): string {
    return this.#dated ? this.#datedOf(this.#dated, batch, i).of(batch, i) : this.#values.of(batch, i)
  }

  #datedOf(known: BoundedMap<number, TemplateMembers>, batch: EventBatch, i: number): TemplateMembers {
    const time = this.#ownField.load(batch, i) === MISSING ? this.#time : this.#ownTime
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

  #documentOf(batch: EventBatch, i: number): Bytes {
    const document = encodedEvent(JSON_OBJECTS, batch, i)
    if (this.#uniqueFrom === undefined) return document
    this.#unique.clear()
    addUnique(this.#unique, document.bytes, document.start, document.end, undefined, MOST_LEVELS)
    return { bytes: this.#unique.bytes, start: 0, end: this.#unique.length }
  }

  encode(request: readonly EventBatch[]): Encoded {
    const body = this.#spare.take(roomFor(request, LINE_ROOM))
    for (const batch of request) {
      const sums = eventSums(batch)
      for (let i = 0; i < batch.length; i++) this.#add(batch, i, sums[i]!, body)
    }
    const parts = [body.bytes.subarray(0, body.length)]
    return { parts, bytes: body.length, release: () => this.#spare.give(body) }
  }

  #add(batch: EventBatch, i: number, sum: number, body: GrowingBytes): void {
    const values = this.targetOf(batch, i)
    if (values !== this.#valuesOfHead) {
      this.#valuesOfHead = values
      this.#head = Buffer.from(`${this.#action}${values},"_id":"`)
    }
    body.add(this.#head, 0, this.#head.length)
    appendEventId(batch, i, sum, body)
    body.add(AFTER_ID, 0, AFTER_ID.length)
    const { bytes, start, end } = this.#documentOf(batch, i)
    if (this.#ownField.load(batch, i) === MISSING) {
      const open = skipSpace(bytes, start, end)
      const next = skipSpace(bytes, open + 1, end)
      body.add(TIME, 0, TIME.length)
      body.addText(this.#time.isoOf(batch, i))
      body.addByte(QUOTE)
      if (bytes[next] !== CLOSE_OBJECT) body.addByte(COMMA)
      body.add(bytes, next, end)
    } else body.add(bytes, start, end)
    body.addByte(LF)
  }
}
