import { type Encoded, encodedEvent } from '../../core/codecs/encode.js'
import { JSON_OBJECTS } from '../../core/codecs/json.js'
import type { ComponentContext } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import { eventId } from '../../core/event/event-id.js'
import { EventTime } from '../../core/event/event-time.js'
import { parseFieldPath } from '../../core/event/field-path.js'
import { type FieldReader, MISSING } from '../../core/event/field-reader.js'
import { type CompiledTemplate, compileTemplate, isConstant, type Template } from '../../core/template.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { skipSpace } from '../../lib/formats/json-scan.js'
import type { ElasticsearchOptions } from './destination.js'

const CLOSE = 0x7d

/** The body of a bulk request: for each event a line `{"create":{"_index":…,"_id":…}}`, and a line with the document. */
export class BulkRequest {
  readonly #action: string
  /** What follows the action for all events: `"_index":"logs",` or less, if values of fields are to be added. */
  readonly #constant: string
  readonly #variable: readonly { readonly name: string; readonly compiled: CompiledTemplate }[]
  readonly #time: EventTime
  readonly #ownTime: FieldReader
  readonly #text = new GrowingBytes()

  constructor({ action, index, pipeline, timestamp }: ElasticsearchOptions, { field }: ComponentContext) {
    this.#action = `{"${action}":{`
    const templates: [name: string, template: Template][] = [['_index', index]]
    if (pipeline) templates.push(['pipeline', pipeline])
    const constant = templates.filter(([, template]) => isConstant(template))
    this.#constant = constant.map(([name, { parts }]) => `"${name}":${JSON.stringify(parts.join(''))},`).join('')
    this.#variable = templates
      .filter(([, template]) => !isConstant(template))
      .map(([name, template]) => ({ name, compiled: compileTemplate(template, field) }))
    this.#time = new EventTime(field(timestamp))
    this.#ownTime = field(parseFieldPath('.@timestamp'))
  }

  encode(request: readonly EventBatch[]): Encoded {
    const body = new GrowingBytes()
    for (const batch of request) for (let i = 0; i < batch.length; i++) this.#add(batch, i, body)
    return { parts: [body.bytes.subarray(0, body.length)], bytes: body.length }
  }

  #add(batch: EventBatch, i: number, body: GrowingBytes): void {
    body.addText(`${this.#action}${this.#constant}${this.#values(batch, i)}"_id":"${eventId(batch, i)}"}}\n`)
    const { bytes, start, end } = encodedEvent(JSON_OBJECTS, batch, i)
    if (this.#ownTime.load(batch, i) === MISSING) {
      const open = skipSpace(bytes, start, end)
      const next = skipSpace(bytes, open + 1, end)
      body.addText(`{"@timestamp":"${this.#time.isoOf(batch, i)}"${bytes[next] === CLOSE ? '' : ','}`)
      body.add(bytes, next, end)
    } else body.add(bytes, start, end)
    body.addText('\n')
  }

  /** The values of fields, each with its name and a comma. */
  #values(batch: EventBatch, i: number): string {
    let json = ''
    for (const { name, compiled } of this.#variable) {
      this.#text.clear()
      compiled.append(batch, i, this.#text)
      const { bytes, length } = this.#text
      // Without a pipeline of its own an event takes that of its index.
      if (length > 0) json += `"${name}":${JSON.stringify(bytes.toString('utf8', 0, length))},`
    }
    return json
  }
}
