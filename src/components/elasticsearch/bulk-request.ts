import { type Encoded, encodedEvent, roomFor } from '../../core/codecs/encode.js'
import { JSON_OBJECTS } from '../../core/codecs/json.js'
import type { ComponentContext } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import { appendEventId } from '../../core/event/event-id.js'
import { EventTime } from '../../core/event/event-time.js'
import { parseFieldPath } from '../../core/event/field-path.js'
import { type FieldReader, MISSING } from '../../core/event/field-reader.js'
import { TemplateMembers } from '../../core/template.js'
import { CLOSE_OBJECT, COMMA, LF, QUOTE } from '../../lib/formats/ascii.js'
import type { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { skipSpace } from '../../lib/formats/json-scan.js'
import { SpareBytes } from '../../lib/formats/spare-bytes.js'
import type { ElasticsearchOptions } from './options.js'

const AFTER_ID = Buffer.from('"}}\n')
const TIME = Buffer.from('{"@timestamp":"')
/** Typical number of bytes added to a document: the line before the document, and its time. */
const LINE_ROOM = 128

/** The body of a bulk request. Each event has a line `{"create":{"_index":…,"_id":…}}` and a line with the document. */
export class BulkRequest {
  /** The beginning of the line before a document. */
  readonly #action: string
  /** Index and pipeline. An event without a pipeline uses the pipeline of its index. */
  readonly #values: TemplateMembers
  readonly #time: EventTime
  readonly #ownTime: FieldReader
  readonly #spare = new SpareBytes()
  /**
   * The line before the last document, up to the id, and the values in that line. They are cached, because most
   * consecutive events have the same values.
   */
  #head = Buffer.alloc(0)
  #valuesOfHead: string | undefined

  constructor({ action, index, pipeline, timestamp }: ElasticsearchOptions, { field }: ComponentContext) {
    this.#action = `{"${action}":{`
    this.#values = new TemplateMembers({ _index: index, ...(pipeline && { pipeline }) }, field)
    this.#time = new EventTime(field(timestamp))
    this.#ownTime = field(parseFieldPath('.@timestamp'))
  }

  /** Index and pipeline of the event. */
  targetOf(batch: EventBatch, i: number): string {
    return this.#values.of(batch, i)
  }

  encode(request: readonly EventBatch[]): Encoded {
    const body = this.#spare.take(roomFor(request, LINE_ROOM))
    for (const batch of request) for (let i = 0; i < batch.length; i++) this.#add(batch, i, body)
    const parts = [body.bytes.subarray(0, body.length)]
    return { parts, bytes: body.length, release: () => this.#spare.give(body) }
  }

  #add(batch: EventBatch, i: number, body: GrowingBytes): void {
    const values = this.#values.of(batch, i)
    if (values !== this.#valuesOfHead) {
      this.#valuesOfHead = values
      this.#head = Buffer.from(`${this.#action}${values},"_id":"`)
    }
    body.add(this.#head, 0, this.#head.length)
    appendEventId(batch, i, body)
    body.add(AFTER_ID, 0, AFTER_ID.length)
    const { bytes, start, end } = encodedEvent(JSON_OBJECTS, batch, i)
    if (this.#ownTime.load(batch, i) === MISSING) {
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
