import type { ProcessorContext } from '../../../core/component.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { EditedField, EventEditor } from '../../../core/event/event-editor.js'
import { parseFieldPath } from '../../../core/event/field-path.js'
import { GrowingBytes } from '../../../lib/formats/growing-bytes.js'
import type { EventKey } from '../../throttle/buckets/event-key.js'
import type { LimitRefusal } from '../../throttle/decider.js'
import { ruleTitle } from '../../throttle/rules/rules.js'

const FIELD = parseFieldPath('.throttle')
const CLOSE_OBJECT = 0x7d

/** The limit that an event exceeded. `count` is missing if the count is unknown. */
export type Exceeded = Omit<LimitRefusal, 'count'> & { readonly count?: number }

/** Writes the field `.throttle`. */
export class Annotation {
  readonly #editor: EventEditor
  readonly #field: EditedField
  readonly #component: Buffer
  readonly #json = new GrowingBytes()

  constructor(context: Pick<ProcessorContext, 'id' | 'editor'>) {
    this.#editor = context.editor()
    this.#field = this.#editor.field(FIELD)
    this.#component = Buffer.from(`{"component":${JSON.stringify(context.id)},"bucket":`)
  }

  /** `reason`: why the event is discarded. Undefined if the event is over the limit. */
  add(batch: EventBatch, i: number, key: EventKey, exceeded: Exceeded, reason?: string): void {
    const { limit, windowMs, count, unit, rule } = exceeded
    const json = this.#json
    json.clear()
    json.add(this.#component, 0, this.#component.length)
    key.writeName(json)
    json.addText(`,"limit":${limit},"window_ms":${Math.round(windowMs)}`)
    if (count !== undefined) json.addText(`,"count":${count}`)
    if (unit !== 'events') json.addText(`,"unit":"${unit}"`)
    if (rule) json.addText(`,"rule":${JSON.stringify(ruleTitle(rule))}`)
    if (reason !== undefined) json.addText(`,"reason":"${reason}"`)
    json.addByte(CLOSE_OBJECT)
    this.#editor.open(batch, i)
    this.#editor.setJson(this.#field, json.bytes, 0, json.length)
    this.#editor.close()
  }
}
