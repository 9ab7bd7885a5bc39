import { isDigit } from '../../lib/formats/ascii.js'
import type { FieldName, FieldSink, ValueMaker } from '../../lib/formats/field-sink.js'
import { isLongInteger } from '../../lib/formats/json-numbers.js'
import { SLOT, slotOf, WantedNames } from '../../lib/formats/json-scan.js'
import { addCopied, type ByteSink } from '../../lib/formats/json-string.js'
import { FieldMembers } from '../../lib/formats/members.js'
import { parseExact } from '../../lib/formats/normal-json.js'
import { theKernel } from '../../lib/kernel/kernel.js'
import type { Lines } from '../../lib/kernel/line-memory.js'
import { CONTINUES, LINE_END, PIECE } from '../../lib/lines/line-splitter.js'
import { Codec, type CodecDefinition, NEWLINE, putSlot } from '../codec.js'
import type { EventBatch } from '../event/batch.js'
import { ORIGIN_FIELDS } from '../event/event.js'
import type { EventFields, Fields } from '../event/event-fields.js'
import { DECODED, INVALID, MODIFIED, SCANNED } from '../event/flags.js'
import { OriginTail, originBit, ownBits } from '../event/origin-tail.js'
import { FieldLines, type LineFormat } from './field-lines.js'

const OPEN = Buffer.from('{')
const NOTHING = Buffer.alloc(0)
const NO_SLOTS = new Int32Array(0)
const SCAN = { skipped: PIECE | CONTINUES, ended: LINE_END, scanned: SCANNED, decoded: DECODED }
/** The kernel may write a line's event only if DECODED is set and the other flags are not. */
const STATE = PIECE | CONTINUES | DECODED | INVALID | MODIFIED
const ORIGIN_NAMES = new WantedNames()
for (const name of ORIGIN_FIELDS) ORIGIN_NAMES.slot(name)

/**
 * Converts fields to slots. If the line does not contain the text of a value, the slot covers the whole line, or
 * another range that the codec chooses, such as a JSON string with its opening quote.
 */
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

  string(name: FieldName, b: Buffer, start: number, end: number, hasEscapes: boolean): void {
    if (hasEscapes) this.#put(name, b, start - 1, end)
    else this.text(name, b, start, end)
  }

  made(name: FieldName, _maker: ValueMaker, b: Buffer, start: number, end: number): void {
    this.#put(name, b, start, end)
  }

  json(name: FieldName): void {
    this.value(name)
  }

  value(name: FieldName): void {
    const slot = slotOf(name.bytes, name.start, name.end, this.wanted)
    if (slot >= 0) this.#putLine(slot)
  }

  #put(name: FieldName, b: Buffer, start: number, end: number): void {
    const slot = slotOf(name.bytes, name.start, name.end, this.wanted)
    if (slot < 0) return
    if (b === this.line) putSlot(this.out, this.at, slot, start, end, true)
    else this.#putLine(slot)
  }

  #putLine(slot: number): void {
    putSlot(this.out, this.at, slot, this.start, this.end, true)
  }
}

class ObjectSink implements FieldSink {
  readonly entries: [string, unknown][] = []
  readonly #isExact: boolean

  constructor(isExact: boolean) {
    this.#isExact = isExact
  }

  text(name: FieldName, b: Buffer, start: number, end: number): void {
    this.entries.push([name.toString(), b.toString('utf8', start, end)])
  }

  string(name: FieldName, b: Buffer, start: number, end: number): void {
    this.entries.push([name.toString(), JSON.parse(`"${b.toString('utf8', start, end)}"`)])
  }

  json(name: FieldName, b: Buffer, start: number, end: number): void {
    const parse = this.#isExact && isLongInteger(b, start, end) ? parseExact : JSON.parse
    this.entries.push([name.toString(), parse(b.toString('utf8', start, end))])
  }

  made(name: FieldName, maker: ValueMaker, b: Buffer, start: number, end: number): void {
    this.value(name, maker.value(b, start, end, name.toString(), 0))
  }

  value(name: FieldName, value: unknown): void {
    if (value !== undefined) this.entries.push([name.toString(), value])
  }
}

const slots = new SlotSink()
const members = new FieldMembers()

/**
 * A codec of the form `fields` that implements only `read`. Slots, objects, JSON and the input of `parse` are derived
 * from the fields that `read` writes. If a name occurs twice, the last value is used.
 */
export abstract class FieldsCodec extends Codec {
  readonly #fields: EventFields | undefined
  readonly #tail = new OriginTail()

  /** `fields`: the fields that a line can have; undefined: any. */
  constructor(
    definition: CodecDefinition,
    fields?: EventFields | undefined,
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

  fields(b: Buffer, start: number, end: number, receivedAt: number, isExact = false): Fields {
    const sink = new ObjectSink(isExact)
    this.read(b, start, end, sink, receivedAt)
    // fromEntries creates own properties for all names, including `__proto__`.
    return Object.fromEntries(sink.entries)
  }

  /** Reads the line again. If the codec passed a range to `string` or `made`, reads only that range. */
  override value(b: Buffer, start: number, end: number, name: string, receivedAt: number): unknown {
    const fields = this.fields(b, start, end, receivedAt, true)
    return Object.hasOwn(fields, name) ? fields[name] : undefined
  }

  override scanLines(lines: Lines, wanted: WantedNames, out: Int32Array): number | undefined {
    const { lineFormat } = this
    const kernel = lineFormat && theKernel()?.part(FieldLines)
    return kernel?.isWorthwhile(lines) ? kernel.scan(lineFormat!, lines, wanted, out, SCAN) : undefined
  }

  override writeJson(batch: EventBatch, to: ByteSink): void {
    const kernel = theKernel()?.part(FieldLines)
    if (!kernel || !this.lineFormat || batch.texts || !kernel.isWorthwhile(batch)) super.writeJson(batch, to)
    else this.#writeLines(batch, to, kernel, this.lineFormat)
  }

  #writeLines(batch: EventBatch, to: ByteSink, kernel: FieldLines, format: LineFormat): void {
    // `look` may scan with the kernel, so all flags must be known before the kernel writes.
    for (let i = 0; i < batch.length; i++) batch.look(i)
    const tail = this.#tail.of(batch, DECODED, ownBits(format.names))
    const end = Buffer.concat([tail, NEWLINE])
    if (!kernel.setFrame({ head: OPEN, hasLine: false, middle: NOTHING, end, middleSlots: NO_SLOTS })) {
      super.writeJson(batch, to)
      return
    }
    for (let from = 0; from < batch.length; ) {
      const until = kernel.write(format, batch, from, STATE, DECODED)
      this.#addGroup(batch, from, until, kernel, to)
      from = until
    }
  }

  /** Adds events [from, until). The kernel has written some of these events. `writeEvent` writes the others. */
  #addGroup(batch: EventBatch, from: number, until: number, { output, starts, ends }: FieldLines, to: ByteSink): void {
    for (let i = from; i < until; ) {
      const start = starts[i - from]!
      let end = start
      while (i < until && ends[i - from] !== 0) end = ends[i++ - from]!
      addCopied(to, output, start, end)
      if (i === until) return
      this.writeEvent(batch, i++, to)
      to.add(NEWLINE, 0, 1)
    }
  }

  override writeEvent(batch: EventBatch, i: number, to: ByteSink): void {
    const flags = batch.look(i)
    const isRead = (flags & (DECODED | INVALID | MODIFIED)) === DECODED
    members.clear()
    if (isRead) this.read(batch.chunk, batch.starts[i]!, batch.ends[i]!, members, batch.receivedAt)
    // Members with unclear names may be origin fields.
    if (!isRead || members.isUnclear || members.count === 0) {
      super.writeEvent(batch, i, to)
      return
    }
    const { out, count, nameStarts, nameEnds } = members
    let own = 0
    for (let n = 0; n < count; n++) {
      // JavaScript objects order members with numeric names first.
      if (isDigit(out.bytes[nameStarts[n]!]!)) {
        super.writeEvent(batch, i, to)
        return
      }
      const slot = slotOf(out.bytes, nameStarts[n]!, nameEnds[n]!, ORIGIN_NAMES)
      if (slot >= 0) own |= originBit(ORIGIN_NAMES.names[slot]!)
    }
    const tail = this.#tail.of(batch, flags, own)
    to.add(OPEN, 0, 1)
    out.giveTo(to)
    to.add(tail, 0, tail.length)
  }
}
