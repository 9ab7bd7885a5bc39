import { z } from 'zod'
import { defineProcessor, type Processor, type ProcessorContext } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { EditedField, EventEditor } from '../../core/event/event-editor.js'
import { EventJson } from '../../core/event/event-json.js'
import { cannotBeSet, type FieldPath } from '../../core/event/field-path.js'
import { ARRAY_VALUE, type FieldReader } from '../../core/event/field-reader.js'
import { Growth } from '../../core/event/growth.js'
import { fieldPath } from '../../core/options/options.js'
import { type BatchScope, discard, FAILED } from '../../core/processor.js'
import { COMMA, LF } from '../../lib/formats/ascii.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { findPath, found } from '../../lib/formats/json-members.js'
import { skipSpace, valueEnd } from '../../lib/formats/json-scan.js'
import { joinLines } from '../../lib/formats/json-text.js'

const EMPTY = discard(0)
/** Stands at the place of the item until the lines are written. */
const PLACEHOLDER = Buffer.from('0')
const ROOM_MIB = 32

const options = z.strictObject({
  field: fieldPath().describe('Field with the array. Each item becomes an event, in order.'),
  target: fieldPath()
    .optional()
    .describe('Field for the item. Default: the field with the array. If you set another field, the array is removed.'),
  when_empty: z
    .enum(['pass', 'discard'])
    .default('pass')
    .describe('What happens to an event whose array is empty: `pass` passes it unchanged.'),
  when_no_array: z
    .enum(['pass', 'fail'])
    .default('pass')
    .describe(
      'What happens to an event whose field is missing or not an array: `pass` passes it unchanged; `fail` handles it as set by `on_error`.',
    ),
  max_items: z
    .int()
    .min(1)
    .max(1_000_000)
    .default(10_000)
    .describe('Maximum number of items. An event with more items is handled as set by `on_error`.'),
})
type Options = z.output<typeof options>

class Explode implements Processor {
  readonly #options: Options
  readonly #reader: FieldReader
  readonly #editor: EventEditor
  readonly #field: EditedField
  readonly #target: EditedField
  readonly #json = new EventJson()
  readonly #lines = new GrowingBytes()
  /** Where each item of the current event starts and ends in `#bytes`. */
  readonly #items: number[] = []
  #bytes: Buffer = PLACEHOLDER
  readonly #growth = new Growth(ROOM_MIB)

  constructor(options: Options, context: ProcessorContext) {
    this.#options = options
    this.#reader = context.field(options.field)
    this.#editor = context.editor()
    this.#field = this.#editor.field(options.field)
    this.#target = options.target ? this.#editor.field(options.target) : this.#field
  }

  process(batch: EventBatch, to: Uint8Array, scope: BatchScope): void {
    const { field, when_empty, when_no_array } = this.#options
    const fail = (i: number, why: string) => {
      to[i] = FAILED
      scope.because(i, why)
    }
    this.#growth.begin()
    for (let i = 0; i < batch.length; i++) {
      if (this.#reader.load(batch, i) !== ARRAY_VALUE) {
        if (when_no_array === 'fail') fail(i, `${field.text} is not an array`)
        continue
      }
      this.#findItems()
      if (this.#items.length === 0) {
        if (when_empty === 'discard') to[i] = EMPTY
        continue
      }
      const problem = this.#explode(batch, i)
      if (problem !== undefined) fail(i, problem)
      else scope.replaceByLines(i, this.#lines.bytes, 0, this.#lines.length)
    }
  }

  #findItems(): void {
    let { bytes, start, end } = this.#reader
    if (bytes.length === 0) {
      bytes = Buffer.from(this.#reader.json())
      start = 0
      end = bytes.length
    }
    this.#bytes = bytes
    this.#items.length = 0
    for (let p = skipSpace(bytes, start + 1, end); p < end - 1; ) {
      const itemEnd = valueEnd(bytes, p, end)
      this.#items.push(p, itemEnd)
      p = skipSpace(bytes, itemEnd, end)
      if (bytes[p] === COMMA) p = skipSpace(bytes, p + 1, end)
    }
  }

  /** Writes an event for each item, or returns why this failed. */
  #explode(batch: EventBatch, i: number): string | undefined {
    const { max_items, target } = this.#options
    const items = this.#items
    const count = items.length / 2
    if (count > max_items) return `the array has ${count} items, more than max_items`
    const json = this.#json
    json.read(batch, i)
    const size = json.end - json.start
    const arraySize = items.at(-1)! - items[0]!
    const nameSize = target ? Buffer.byteLength(target.text) : 0
    const grown = count * (size - arraySize + nameSize) + arraySize
    const refused = this.#growth.refuseSeveral(size, grown)
    if (refused !== undefined) return refused
    if (target) {
      const problem = this.#makeRoom(batch, i, target)
      if (problem !== undefined) return problem
      json.read(batch, i)
    }
    findPath(json.bytes, json.start, json.end, this.#target.segments)
    this.#writeLines(found.start, found.end)
    return undefined
  }

  /** Removes the array and sets a placeholder for the item, or returns why this failed. */
  #makeRoom(batch: EventBatch, i: number, target: FieldPath): string | undefined {
    const editor = this.#editor
    editor.open(batch, i)
    editor.remove(this.#field)
    if (!editor.setJson(this.#target, PLACEHOLDER)) return cannotBeSet(target)
    editor.close()
    return undefined
  }

  /** In the JSON of the event, the array or the placeholder is at [from, to). */
  #writeLines(from: number, to: number): void {
    const { bytes, start, end } = this.#json
    const items = this.#items
    const lines = this.#lines
    // JSON can have line ends between values. They must be replaced, because an event must be one line.
    const hasLineEnds =
      bytes.subarray(start, end).includes(LF) || this.#bytes.subarray(items[0], items.at(-1)).includes(LF)
    lines.clear()
    for (let n = 0; n < items.length; n += 2) {
      const lineStart = lines.length
      lines.add(bytes, start, from)
      lines.add(this.#bytes, items[n]!, items[n + 1]!)
      lines.add(bytes, to, end)
      if (hasLineEnds) joinLines(lines.bytes, lineStart, lines.length)
      lines.addByte(LF)
    }
  }
}

export const explode = defineProcessor({
  type: 'explode',
  summary: 'Makes an event of each item of an array.',
  notes:
    'Each new event has one item in the place of the array, and all other fields of the original event. The event with the array counts as `sluice_component_consumed_events_total`, the new events count as `sluice_component_emitted_events_total`. All events made of one event may take 16 MiB together. If events that a source reads at once grow to more than 16 times their size, the events made of them may take 32 MiB together. An event that would exceed a limit is handled as set by `on_error`.',
  options,
  fields: ({ target }) => ({ names: target ? [target.segments[0]] : [] }),
  usesFields: ({ field }) => [{ option: 'field', path: field, without: 'no event has items' }],
  plan: ({ when_empty }) => (when_empty === 'discard' ? { reasons: ['empty'] } : {}),
  reasons: { empty: 'The array has no items, with `when_empty: discard`.' },
  examples: [
    {
      title: 'An event for each record of a request',
      yaml: 'field: .records\ntarget: .record\n',
      input: ['{"app":"shop","records":[{"id":1},{"id":2}],"size":2}', '{"app":"shop","records":[]}', '{"app":"web"}'],
      output: [
        '{"app":"shop","size":2,"record":{"id":1}}',
        '{"app":"shop","size":2,"record":{"id":2}}',
        '{"app":"shop","records":[]}',
        '{"app":"web"}',
      ],
    },
    {
      title: 'The item in the place of the array; events without items are discarded',
      yaml: 'field: .tags\nwhen_empty: discard\n',
      input: ['{"id":7,"tags":["a","b"]}', '{"id":8,"tags":[]}'],
      output: ['{"id":7,"tags":"a"}', '{"id":7,"tags":"b"}'],
    },
  ],
  create: (options, context) => new Explode(options, context),
})
