import { type Encoded, encodedEvent, roomFor } from '../../core/codecs/encode.js'
import { JSON_OBJECTS } from '../../core/codecs/json.js'
import type { ComponentContext } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import { eventId } from '../../core/event/event-id.js'
import { EventTime } from '../../core/event/event-time.js'
import { parseFieldPath } from '../../core/event/field-path.js'
import { type FieldReader, MISSING } from '../../core/event/field-reader.js'
import { TemplateMembers } from '../../core/template.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { skipSpace } from '../../lib/formats/json-scan.js'
import type { ElasticsearchOptions } from './destination.js'

const CLOSE = 0x7d
/** Bytes of a usual line before a document, and of its time. */
const LINE_ROOM = 128

/** The body of a bulk request: for each event a line `{"create":{"_index":…,"_id":…}}`, and a line with the document. */
export class BulkRequest {
  /** The beginning of the line before a document. */
  readonly #action: string
  /** Without its own pipeline, an event uses the pipeline of its index. */
  readonly #values: TemplateMembers
  readonly #time: EventTime
  readonly #ownTime: FieldReader

  constructor({ action, index, pipeline, timestamp }: ElasticsearchOptions, { field }: ComponentContext) {
    this.#action = `{"${action}":{`
    this.#values = new TemplateMembers({ _index: index, ...(pipeline && { pipeline }) }, field)
    this.#time = new EventTime(field(timestamp))
    this.#ownTime = field(parseFieldPath('.@timestamp'))
  }

  encode(request: readonly EventBatch[]): Encoded {
    const body = new GrowingBytes(roomFor(request, LINE_ROOM))
    for (const batch of request) for (let i = 0; i < batch.length; i++) this.#add(batch, i, body)
    return { parts: [body.bytes.subarray(0, body.length)], bytes: body.length }
  }

  #add(batch: EventBatch, i: number, body: GrowingBytes): void {
    body.addText(`${this.#action}${this.#values.of(batch, i)},"_id":"${eventId(batch, i)}"}}\n`)
    const { bytes, start, end } = encodedEvent(JSON_OBJECTS, batch, i)
    if (this.#ownTime.load(batch, i) === MISSING) {
      const open = skipSpace(bytes, start, end)
      const next = skipSpace(bytes, open + 1, end)
      body.addText(`{"@timestamp":"${this.#time.isoOf(batch, i)}"${bytes[next] === CLOSE ? '' : ','}`)
      body.add(bytes, next, end)
    } else body.add(bytes, start, end)
    body.addText('\n')
  }
}
