import { Codec, type CodecDefinition, putSlot } from '../core/codec.js'
import type { EventBatch } from '../core/event/batch.js'
import { type Fields, ORIGIN_FIELDS } from '../core/event/event.js'
import type { EventFields } from '../core/event/event-fields.js'
import { DECODED, INVALID, MODIFIED } from '../core/event/flags.js'
import { OriginTail, originBit } from '../core/event/origin-tail.js'
import type { FieldName, FieldSink } from '../lib/formats/field-sink.js'
import { SLOT, slotOf, WantedNames } from '../lib/formats/json-scan.js'
import type { ByteSink } from '../lib/formats/json-string.js'
import { Members } from '../lib/formats/members.js'

const OPEN = Buffer.from('{')
const ORIGIN_NAMES = new WantedNames()
for (const name of ORIGIN_FIELDS) ORIGIN_NAMES.slot(name)

/** Makes slots of fields. A value that is no text of the line has all of the line as its place (see FieldsCodec.value). */
class SlotSink implements FieldSink {
  wanted = new WantedNames()
  line: Buffer = Buffer.alloc(0)
  start = 0
  end = 0
  out: Int32Array = new Int32Array(0)
  at = 0

  text(name: FieldName, b: Buffer, start: number, end: number): void {
    const slot = slotOf(name.bytes, name.start, name.end, this.wanted)
    if (slot < 0) return
    if (b === this.line) putSlot(this.out, this.at, slot, start, end, false)
    else this.#putLine(slot)
  }

  string(name: FieldName): void {
    this.value(name)
  }

  json(name: FieldName): void {
    this.value(name)
  }

  value(name: FieldName): void {
    const slot = slotOf(name.bytes, name.start, name.end, this.wanted)
    if (slot >= 0) this.#putLine(slot)
  }

  #putLine(slot: number): void {
    putSlot(this.out, this.at, slot, this.start, this.end, true)
  }
}

/** Makes an object of fields. */
class ObjectSink implements FieldSink {
  readonly entries: [string, unknown][] = []

  text(name: FieldName, b: Buffer, start: number, end: number): void {
    this.entries.push([name.toString(), b.toString('utf8', start, end)])
  }

  string(name: FieldName, b: Buffer, start: number, end: number): void {
    this.entries.push([name.toString(), JSON.parse(`"${b.toString('utf8', start, end)}"`)])
  }

  json(name: FieldName, b: Buffer, start: number, end: number): void {
    this.entries.push([name.toString(), JSON.parse(b.toString('utf8', start, end))])
  }

  value(name: FieldName, value: unknown): void {
    if (value !== undefined) this.entries.push([name.toString(), value])
  }
}

const slots = new SlotSink()
const members = new Members()

/**
 * A codec of the form `fields` that consists of its `read`: that gives slots, an object, JSON, and what `parse` merges.
 * If a name occurs twice, the last value counts.
 */
export abstract class FieldsCodec extends Codec {
  readonly #fields: EventFields | undefined
  readonly #tail = new OriginTail()

  /** `fields`: those that a line can have; undefined: any. */
  constructor(
    definition: CodecDefinition,
    fields: EventFields | undefined,
    options: Readonly<Record<string, unknown>> = {},
  ) {
    super(definition, options)
    this.#fields = fields
  }

  override get eventFields(): EventFields | undefined {
    return this.#fields
  }

  abstract override read(b: Buffer, start: number, end: number, to: FieldSink, receivedAt: number): boolean

  scan(b: Buffer, start: number, end: number, wanted: WantedNames, out: Int32Array, at: number): boolean {
    slots.wanted = wanted
    slots.line = b
    slots.start = start
    slots.end = end
    slots.out = out
    slots.at = at
    if (this.read(b, start, end, slots, 0)) return true
    out.fill(0, at, at + wanted.names.length * SLOT)
    return false
  }

  fields(b: Buffer, start: number, end: number, receivedAt: number): Fields {
    const sink = new ObjectSink()
    this.read(b, start, end, sink, receivedAt)
    // fromEntries creates own properties for all names, including `__proto__`.
    return Object.fromEntries(sink.entries)
  }

  /** Reads the line again: a value that is no text of it is not in a slot. */
  override value(b: Buffer, start: number, end: number, name: string, receivedAt: number): unknown {
    const fields = this.fields(b, start, end, receivedAt)
    return Object.hasOwn(fields, name) ? fields[name] : undefined
  }

  override writeEvent(batch: EventBatch, i: number, to: ByteSink): void {
    const flags = batch.look(i)
    const isRead = (flags & (DECODED | INVALID | MODIFIED)) === DECODED
    members.clear()
    if (isRead) this.read(batch.chunk, batch.starts[i]!, batch.ends[i]!, members, batch.receivedAt)
    // Members that are not known by name may have names that the origin has too.
    if (!isRead || members.isUnclear || members.count === 0) {
      super.writeEvent(batch, i, to)
      return
    }
    const { out, count, nameStarts, nameEnds } = members
    let own = 0
    for (let n = 0; n < count; n++) {
      const slot = slotOf(out.bytes, nameStarts[n]!, nameEnds[n]!, ORIGIN_NAMES)
      if (slot >= 0) own |= originBit(ORIGIN_NAMES.names[slot]!)
    }
    const tail = this.#tail.of(batch, flags, own)
    to.add(OPEN, 0, 1)
    out.giveTo(to)
    to.add(tail, 0, tail.length)
  }
}
