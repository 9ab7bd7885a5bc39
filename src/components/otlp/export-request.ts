import type { Encoded } from '../../core/codecs/encode.js'
import type { ComponentContext } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import { type CompiledTemplate, compileTemplate } from '../../core/template.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import type { OtlpOptions } from './destination.js'
import { JsonRecords } from './json-records.js'
import { LogRecords } from './log-record.js'
import { ProtobufRecords } from './protobuf-records.js'
import type { Group, Records } from './records.js'

const LENGTH_BYTES = 4

/** The body of an export request: the events of each resource and scope together, in their order. */
export class ExportRequest {
  readonly records: Records
  readonly #record: LogRecords
  readonly #names: readonly string[]
  /** Of the resource, and the last one of the scope. */
  readonly #values: readonly CompiledTemplate[]
  readonly #text = new GrowingBytes()
  /** The values of the last event, and its group in this request. */
  #last = Buffer.alloc(0)
  #lastGroup: Group | undefined

  constructor(options: OtlpOptions, context: ComponentContext) {
    const { resource, scope, encoding } = options
    this.records = encoding === 'json' ? new JsonRecords() : new ProtobufRecords()
    this.#record = new LogRecords(options)
    this.#names = Object.keys(resource)
    this.#values = [...Object.values(resource), scope].map(template => compileTemplate(template, context.field))
  }

  encode(request: readonly EventBatch[]): Encoded {
    const groups = new Map<string, Group>()
    this.#lastGroup = undefined
    for (const batch of request) {
      for (let i = 0; i < batch.length; i++) {
        this.records.to = this.#groupOf(batch, i, groups).records
        this.#record.add(batch, i, this.records)
      }
    }
    const parts = this.records.request(groups.values())
    return { parts, bytes: parts.reduce((sum, { length }) => sum + length, 0) }
  }

  #groupOf(batch: EventBatch, i: number, groups: Map<string, Group>): Group {
    const text = this.#text
    text.clear()
    for (const value of this.#values) {
      const from = text.length
      value.append(batch, i, text)
      text.reserve(LENGTH_BYTES)
      text.length = text.bytes.writeUInt32LE(text.length - from, text.length)
    }
    // Values with their lengths are the same only if each of them is.
    if (this.#lastGroup && isSame(text, this.#last)) return this.#lastGroup
    const key = text.bytes.toString('latin1', 0, text.length)
    let group = groups.get(key)
    this.#last = Buffer.from(text.bytes.subarray(0, text.length))
    if (!group) groups.set(key, (group = this.#newGroup(batch, i)))
    this.#lastGroup = group
    return group
  }

  #newGroup(batch: EventBatch, i: number): Group {
    const text = this.#text
    const values = this.#values.map(value => {
      text.clear()
      value.append(batch, i, text)
      return text.bytes.toString('utf8', 0, text.length)
    })
    const scope = values.pop()!
    const resource = this.#names.map((name, n): [string, string] => [name, values[n]!])
    return { resource: resource.filter(([, value]) => value !== ''), scope, records: new GrowingBytes() }
  }
}

/** A loop is faster than a call of `compare` for so few bytes. */
function isSame({ bytes, length }: GrowingBytes, other: Buffer): boolean {
  if (length !== other.length) return false
  for (let i = 0; i < length; i++) if (bytes[i] !== other[i]) return false
  return true
}
