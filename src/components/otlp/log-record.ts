import { encodedEvent } from '../../core/codecs/encode.js'
import { JSON_OBJECTS } from '../../core/codecs/json.js'
import type { ComponentContext } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import { ORIGIN_FIELDS, originField } from '../../core/event/event.js'
import { eventId } from '../../core/event/event-id.js'
import { EventTime } from '../../core/event/event-time.js'
import type { FieldPath } from '../../core/event/field-path.js'
import { type FieldReader, MISSING, NULL, NUMBER, STRING } from '../../core/event/field-reader.js'
import { DECODED, INVALID, MODIFIED } from '../../core/event/flags.js'
import { QUOTE } from '../../lib/formats/ascii.js'
import { skipSpace, slotOf, WantedNames } from '../../lib/formats/json-scan.js'
import { addString, addText, addValue, eachMember } from './any-value.js'
import type { OtlpOptions } from './destination.js'
import { OBSERVED_TIME, type Records, SEVERITY_NUMBER, SEVERITY_TEXT, SPAN_ID, TIME, TRACE_ID } from './records.js'
import { severityOfNumber, severityOfWord } from './severity.js'

/** Of a number of nanoseconds with 64 bits. */
const MOST_SECONDS = 2 ** 64 / 1e9 - 1
const TRACE = /^(?!0+$)[0-9a-f]{32}$/i
const SPAN = /^(?!0+$)[0-9a-f]{16}$/i
const UID = Buffer.from('log.record.uid')

/** A field that becomes a part of the record. */
interface Candidate {
  readonly reader: FieldReader
  /** Of its name among those that can be taken; -1 if it lies deeper in the event, where it stays. */
  readonly slot: number
}

/** Writes events as log records: fields of their own for body, time, severity and trace, attributes for all others. */
export class LogRecords {
  readonly #names = new WantedNames()
  /** The event whose member of that name became a part of the record, and is no attribute. */
  readonly #takenIn: number[] = []
  #event = 0
  readonly #time: EventTime
  readonly #timeSlot: number
  readonly #body: readonly Candidate[]
  readonly #severity: readonly Candidate[]
  readonly #trace: readonly Candidate[]
  readonly #span: readonly Candidate[]
  readonly #hasUid: boolean
  readonly #ofOrigin: readonly { readonly name: string; readonly bytes: Buffer; readonly slot: number }[]

  constructor(options: OtlpOptions, { field }: ComponentContext) {
    const readersOf = (paths: readonly FieldPath[]) =>
      paths.map(path => ({ reader: field(path), slot: this.#slotOf(path) }))
    this.#time = new EventTime(field(options.timestamp))
    this.#timeSlot = this.#slotOf(options.timestamp)
    this.#body = readersOf(options.body)
    this.#severity = readersOf(options.severity)
    this.#trace = readersOf(options.trace_id)
    this.#span = readersOf(options.span_id)
    this.#hasUid = options.record_uid
    this.#ofOrigin = ORIGIN_FIELDS.map(name => ({
      name,
      bytes: Buffer.from(name),
      slot: this.#names.names.indexOf(name),
    }))
  }

  #slotOf({ segments }: FieldPath): number {
    return segments.length === 1 ? this.#names.slot(segments[0]) : -1
  }

  add(batch: EventBatch, i: number, to: Records): void {
    this.#event++
    to.openRecord()
    const at = this.#time.partsOf(batch, i)
    if (at && at.seconds >= 0 && at.seconds <= MOST_SECONDS) {
      to.time(TIME, at.seconds, Number(at.digits.padEnd(9, '0')))
      this.#take(this.#timeSlot)
    }
    const { receivedAt } = batch
    to.time(OBSERVED_TIME, Math.floor(receivedAt / 1000), Math.floor(receivedAt % 1000) * 1_000_000)
    this.#addSeverity(batch, i, to)
    this.#addId(TRACE_ID, TRACE, this.#trace, batch, i, to)
    this.#addId(SPAN_ID, SPAN, this.#span, batch, i, to)
    const hasBody = this.#addBody(batch, i, to)
    if (!hasBody) {
      const { bytes, start, end } = encodedEvent(JSON_OBJECTS, batch, i)
      to.openBody()
      addValue(to, bytes, skipSpace(bytes, start, end), end)
      to.close()
    }
    to.openAttributes()
    if (hasBody) this.#addAttributes(batch, i, to)
    if (this.#hasUid) this.#addUid(batch, i, to)
    to.close()
    to.close()
  }

  #take(slot: number): void {
    if (slot >= 0) this.#takenIn[slot] = this.#event
  }

  /** The first one with a value. */
  #find(candidates: readonly Candidate[], batch: EventBatch, i: number): Candidate | undefined {
    for (const candidate of candidates) {
      const kind = candidate.reader.load(batch, i)
      if (kind !== MISSING && kind !== NULL) return candidate
    }
    return undefined
  }

  #addSeverity(batch: EventBatch, i: number, to: Records): void {
    const found = this.#find(this.#severity, batch, i)
    if (!found) return
    const { reader, slot } = found
    if (reader.kind !== STRING && reader.kind !== NUMBER) return
    const text = reader.text()
    // A number says less than a word, so it stays an attribute, too.
    const isNumber = reader.kind === NUMBER || /^\d+$/.test(text)
    const number = isNumber ? severityOfNumber(Number(text)) : severityOfWord(text)
    if (number !== undefined) to.number(SEVERITY_NUMBER, number)
    if (isNumber) return
    to.word(SEVERITY_TEXT, text)
    this.#take(slot)
  }

  #addId(
    field: typeof TRACE_ID,
    form: RegExp,
    candidates: readonly Candidate[],
    batch: EventBatch,
    i: number,
    to: Records,
  ): void {
    const found = this.#find(candidates, batch, i)
    if (found?.reader.kind !== STRING) return
    const text = found.reader.text()
    if (!form.test(text)) return
    to.id(field, text.toLowerCase())
    this.#take(found.slot)
  }

  #addBody(batch: EventBatch, i: number, to: Records): boolean {
    const found = this.#find(this.#body, batch, i)
    if (!found) return false
    const { reader, slot } = found
    this.#take(slot)
    to.openBody()
    if (reader.kind === STRING && reader.plain) to.text(reader.bytes, reader.start, reader.end)
    else if (reader.kind === STRING && reader.bytes[reader.start] === QUOTE) addString(to, reader.bytes, reader.start)
    else if (reader.kind === STRING) addText(to, reader.text())
    else {
      // A scan needs a byte to stop at.
      const json = Buffer.from(`${reader.kind === NUMBER ? reader.json() : reader.text()}\n`)
      addValue(to, json, 0, json.length - 1)
    }
    to.close()
    return true
  }

  #addAttributes(batch: EventBatch, i: number, to: Records): void {
    const flags = batch.look(i)
    if ((flags & (DECODED | MODIFIED | INVALID)) === 0) {
      this.#addOrigin(batch, flags, to)
      return
    }
    const { bytes, start, end } = encodedEvent(JSON_OBJECTS, batch, i)
    eachMember(to, bytes, skipSpace(bytes, start, end), end, (name, nameStart, nameEnd, json, from, until) => {
      const slot = slotOf(name, nameStart, nameEnd, this.#names)
      if (slot >= 0 && this.#takenIn[slot] === this.#event) return
      to.openAttribute(name, nameStart, nameEnd)
      addValue(to, json, from, until)
      to.close()
    })
  }

  /** The attributes of a line without fields of its own. */
  #addOrigin({ origin, receivedAt }: EventBatch, flags: number, to: Records): void {
    for (const { name, bytes, slot } of this.#ofOrigin) {
      if (slot >= 0 && this.#takenIn[slot] === this.#event) continue
      const value = originField(origin, receivedAt, flags, name)
      if (value === undefined) continue
      to.openAttribute(bytes, 0, bytes.length)
      addText(to, value)
      to.close()
    }
  }

  #addUid(batch: EventBatch, i: number, to: Records): void {
    to.openAttribute(UID, 0, UID.length)
    addText(to, eventId(batch, i))
    to.close()
  }
}
