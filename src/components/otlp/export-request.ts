import type { Encoded } from '../../core/codecs/encode.js'
import type { ComponentContext } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import { DECODED, INVALID, MODIFIED } from '../../core/event/flags.js'
import { type CompiledTemplate, compileTemplate, parseTemplate } from '../../core/template.js'
import { LF } from '../../lib/formats/ascii.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { sizeOfAll } from '../../lib/formats/parts.js'
import { SpareBytes } from '../../lib/formats/spare-bytes.js'
import { theKernel } from '../../lib/kernel/kernel.js'
import type { Lines } from '../../lib/kernel/line-memory.js'
import { JsonRecords } from './json-records.js'
import { LogRecords } from './log-record.js'
import { type OtlpOptions, relayedField, resourceTemplates } from './options.js'
import { ProtobufRecords } from './protobuf-records.js'
import { RecordLines } from './record-lines.js'
import type { RecordGroup, RecordWriter } from './records.js'
import { flatAttributes, scopeIn } from './relayed.js'

const LENGTH_BYTES = 4

/** Encodes an export request's body. Groups events by resource and scope. Within a group, events keep their order. */
export class ExportRequest {
  readonly records: RecordWriter
  readonly #record: LogRecords
  readonly #isRelayed: boolean
  readonly #names: readonly string[]
  /** The templates of the resource's values, then the template of the scope. */
  readonly #values: readonly CompiledTemplate[]
  readonly #text = new GrowingBytes()
  /** The resource and scope of the last event, and the group of that event. */
  #last = Buffer.alloc(0)
  #lastGroup: RecordGroup | undefined
  readonly #spare = new SpareBytes()
  readonly #json = new GrowingBytes()
  /** The WebAssembly kernel, which writes most records. Undefined if it cannot run, or cannot write these fields. */
  readonly #kernel: RecordLines | undefined

  constructor(options: OtlpOptions, context: ComponentContext) {
    const { scope, encoding } = options
    const resource = resourceTemplates(options)
    const relayed = relayedField(options)
    this.#isRelayed = relayed !== undefined
    this.records = encoding === 'json' ? new JsonRecords() : new ProtobufRecords()
    this.#record = new LogRecords(options)
    const { fields } = this.#record
    const kernel = theKernel()?.part(RecordLines)
    if (fields && kernel?.takes(fields)) this.#kernel = kernel
    this.#names = Object.keys(resource)
    const templates = relayed ? [templateOf(relayed.text), templateOf('.scope')] : [...Object.values(resource), scope]
    this.#values = templates.map(template => compileTemplate(template, context.field))
  }

  encode(request: readonly EventBatch[]): Encoded {
    const groups = new Map<string, RecordGroup>()
    this.#lastGroup = undefined
    for (const batch of request) {
      // Finds all flags before the kernel writes records, because finding flags may also use the kernel.
      for (let i = 0; i < batch.length; i++) batch.look(i)
      const json = this.#kernel && batch.origin.codec.form === 'fields' ? this.#jsonOf(batch) : undefined
      for (let i = 0; i < batch.length; ) {
        const objects = this.#kernel && objectsFrom(batch, i, json)
        if (objects) i = this.#addObjects(batch, i, objects, groups)
        else this.#add(batch, i++, groups)
      }
    }
    const parts = this.records.request(groups.values())
    return { parts, bytes: sizeOfAll(parts), release: () => this.#release(groups) }
  }

  /** Converts the events of a batch to lines of JSON, because the lines of the batch have another format. */
  #jsonOf(batch: EventBatch): Lines {
    const json = this.#json
    json.clear()
    batch.origin.codec.writeJson(batch, json)
    const { length, flags } = batch
    const [starts, ends] = [new Int32Array(length), new Int32Array(length)]
    for (let i = 0, start = 0; i < length; i++) {
      starts[i] = start
      ends[i] = json.bytes.indexOf(LF, start)
      start = ends[i]! + 1
    }
    return { chunk: json.bytes, starts, ends, flags, length }
  }

  #release(groups: Map<string, RecordGroup>): void {
    for (const { records } of groups.values()) this.#spare.give(records)
    groups.clear()
  }

  #add(batch: EventBatch, i: number, groups: Map<string, RecordGroup>): void {
    this.records.to = this.#groupOf(batch, i, groups).records
    this.#record.add(batch, i, this.records)
  }

  /** From `first` on, adds the events that the kernel writes in one call. Returns the index after the last one. */
  #addObjects(batch: EventBatch, first: number, objects: Lines, groups: Map<string, RecordGroup>): number {
    const { output, starts, ends, same } = this.#kernel!
    // Finds the group before `write` is called, because reading the resource and the scope may also use the kernel.
    this.#groupOf(batch, first, groups)
    const until = this.#kernel!.write(objects, first, this.#record.fields!, batch.receivedAt)
    for (let i = first; i < until; ) {
      const start = starts[i - first]!
      let end = ends[i - first]!
      if (end === 0) {
        this.#add(batch, i++, groups)
        continue
      }
      const { records } = this.#groupOf(batch, i, groups)
      while (++i < until && same[i - first] === 1 && ends[i - first] !== 0) end = ends[i - first]!
      records.add(output, start, end)
    }
    return until
  }

  #groupOf(batch: EventBatch, i: number, groups: Map<string, RecordGroup>): RecordGroup {
    const text = this.#text
    text.clear()
    for (const value of this.#values) {
      const from = text.length
      value.append(batch, i, text)
      text.reserve(LENGTH_BYTES)
      text.length = text.bytes.writeUInt32LE(text.length - from, text.length)
    }
    // The text includes the length of each value, so equal texts mean equal values.
    if (this.#lastGroup && isSame(text, this.#last)) return this.#lastGroup
    const key = text.bytes.toString('latin1', 0, text.length)
    let group = groups.get(key)
    this.#last = Buffer.from(text.bytes.subarray(0, text.length))
    if (!group) groups.set(key, (group = this.#newGroup(batch, i)))
    this.#lastGroup = group
    return group
  }

  #newGroup(batch: EventBatch, i: number): RecordGroup {
    const text = this.#text
    const values = this.#values.map(value => {
      text.clear()
      value.append(batch, i, text)
      return text.bytes.toString('utf8', 0, text.length)
    })
    const records = this.#spare.take()
    const scope = values.pop()!
    if (this.#isRelayed) return { resource: flatAttributes(values[0]!), scope: scopeIn(scope), records }
    const attributes = this.#names.map((name, n): [string, string] => [name, values[n]!])
    const resource = attributes
      .filter(([, value]) => value !== '')
      .map(([name, value]) => [name, Buffer.from(`${JSON.stringify(value)}\n`)] as const)
    return { resource, scope: scope === '' ? undefined : { name: scope, version: '', attributes: [] }, records }
  }
}

const templateOf = (path: string) => parseTemplate(`\${${path}}`)

/** For few bytes, a loop is faster than `compare`. */
function isSame({ bytes, length }: GrowingBytes, other: Buffer): boolean {
  if (length !== other.length) return false
  for (let i = 0; i < length; i++) if (bytes[i] !== other[i]) return false
  return true
}

/**
 * Returns the JSON of event `first` and of the next events that follow it in the same buffer. Undefined if event
 * `first` has no JSON. `json`: the JSON of all events, if the lines have another format.
 */
function objectsFrom(batch: EventBatch, first: number, json: Lines | undefined): Lines | undefined {
  const { texts, flags } = batch
  const areTexts = !json && texts?.has(first) === true
  const { starts, ends } = json ?? (areTexts ? texts : batch)
  const isObject = (i: number) => {
    const state = flags[i]! & (DECODED | MODIFIED | INVALID)
    return json ? state !== 0 : areTexts ? texts.has(i) : state === DECODED && batch.isObject(i)
  }
  if (!isObject(first)) return undefined
  let length = first + 1
  while (length < batch.length && isObject(length) && starts[length]! >= ends[length - 1]!) length++
  return { chunk: json?.chunk ?? (areTexts ? texts.bytes : batch.chunk), starts, ends, flags, length }
}
