import { encodedEvent } from '../../core/codecs/encode.js'
import { JSON_OBJECTS } from '../../core/codecs/json.js'
import type { EventBatch } from '../../core/event/batch.js'
import { ORIGIN_FIELDS, originField } from '../../core/event/event.js'
import { eventId } from '../../core/event/event-id.js'
import { type TimeParts, TimeText } from '../../core/event/event-time.js'
import type { FieldPath } from '../../core/event/field-path.js'
import { DECODED, INVALID, MODIFIED } from '../../core/event/flags.js'
import { templatePaths } from '../../core/template.js'
import { MINUS, NINE, OPEN_OBJECT, QUOTE, ZERO } from '../../lib/formats/ascii.js'
import { findPath, found, MemberName } from '../../lib/formats/json-members.js'
import { sawEscape, skipSpace, slotOf, valueEnd, WantedNames } from '../../lib/formats/json-scan.js'
import { tokenText } from '../../lib/formats/json-token.js'
import {
  addText,
  addValue,
  eachMember,
  HASHES,
  hashOf,
  hasRepeatedNames,
  unescapedLength,
  unescapedText,
  withUniqueNames,
} from './any-value.js'
import { type OtlpOptions, relayedField, resourceTemplates } from './options.js'
import { RECORD_FIELDS, type RecordFieldName } from './record-json.js'
import { type LogFields, USE } from './record-lines.js'
import {
  DROPPED_ATTRIBUTES,
  EVENT_NAME,
  EVENT_TIME,
  FLAGS,
  OBSERVED_TIME,
  type RecordWriter,
  SEVERITY_NUMBER,
  SEVERITY_TEXT,
  SPAN_ID,
  TRACE_ID,
} from './records.js'
import { SEVERITY_NUMBERS, severityOfNumber, severityOfWord } from './severity.js'

/** The last second whose nanoseconds since the epoch fit into 64 bits. */
const MOST_SECONDS = 2 ** 64 / 1e9 - 1
const TRACE = /^(?!0+$)[0-9a-f]{32}$/i
const SPAN = /^(?!0+$)[0-9a-f]{16}$/i
const UID = Buffer.from('log.record.uid')
const N = 0x6e
const NOWHERE = -1

/** A field that can become a part of the record. */
interface Candidate {
  /** Slot, in `#names`, of the top-level member that is the field or contains the field. */
  readonly slot: number
  /** The path of the field inside this member; empty: the member is the field. */
  readonly rest: readonly (MemberName | number)[]
}

/** The parts of a relayed record that are numbers, words or ids. */
const NUMBERS = [
  ['severity_number', SEVERITY_NUMBER],
  ['dropped_attributes_count', DROPPED_ATTRIBUTES],
  ['flags', FLAGS],
] as const
const WORDS = [
  ['severity', SEVERITY_TEXT],
  ['event_name', EVENT_NAME],
] as const
const IDS = [
  ['trace_id', TRACE_ID],
  ['span_id', SPAN_ID],
] as const
const HEX = /^(?:[0-9a-f]{2})+$/i

type Relayed = { readonly [name in RecordFieldName]: Candidate }

/**
 * Writes events as log records. A record has its own fields for body, time, severity and trace. All other members of
 * the event become attributes. One walk over the JSON of an event writes the attributes, and finds the members that may
 * go into the record's own fields.
 */
export class LogRecords {
  /** Names of the members that may become parts other than attributes. */
  readonly #names = new WantedNames()
  /** For each hash, 1 if a name in `#names` has this hash. */
  readonly #mayBeOther = new Uint8Array(HASHES)
  /** By slot: where the value of the member starts and ends in the current event. */
  readonly #starts: Int32Array
  readonly #ends: Int32Array
  /** By slot: 1 if the value is a string with escapes. */
  readonly #escaped: Uint8Array
  #json: Buffer = UID
  readonly #time: readonly Candidate[]
  readonly #body: readonly Candidate[]
  readonly #severity: readonly Candidate[]
  readonly #trace: readonly Candidate[]
  readonly #span: readonly Candidate[]
  readonly #timeText = new TimeText()
  readonly #hasUid: boolean
  /**
   * `#takesLines`: whether a line without fields of its own becomes the body. `#takesTimes`: whether the time at which
   * a line was read becomes the time of its record.
   */
  readonly #takesLines: boolean
  readonly #takesTimes: boolean
  readonly #ofOrigin = ORIGIN_FIELDS.map(name => ({ name, bytes: Buffer.from(name) }))
  /** The fields of relayed records; undefined: events are not relayed. */
  readonly #relayed: Relayed | undefined
  /** The fields for the kernel; undefined if the kernel cannot write these records. */
  readonly fields: LogFields | undefined

  constructor(options: OtlpOptions) {
    const { timestamp, body, severity, trace_id, span_id } = options
    const candidates = (paths: readonly FieldPath[]) => paths.map(path => this.#candidate(path))
    this.#time = candidates([timestamp])
    this.#body = candidates(body)
    this.#severity = candidates(severity)
    this.#trace = candidates(trace_id)
    this.#span = candidates(span_id)
    this.#hasUid = options.record_uid
    const relayed = relayedField(options)
    if (relayed) {
      const fields = RECORD_FIELDS.map(name => [name, this.#candidate({ text: `.${name}`, segments: [name] })] as const)
      this.#relayed = { ...Object.fromEntries(fields), resource: this.#candidate(relayed) } as Relayed
    }
    for (const name of this.#names.bytes) this.#mayBeOther[hashOf(name, 0, name.length)] = 1
    this.#starts = new Int32Array(this.#names.names.length)
    this.#ends = new Int32Array(this.#names.names.length)
    this.#escaped = new Uint8Array(this.#names.names.length)
    const isOfLine = ({ text }: FieldPath) => text === '.message' || ORIGIN_FIELDS.includes(text.slice(1))
    const others = [...severity, ...trace_id, ...span_id]
    this.#takesLines = !relayed && body.find(isOfLine)?.text === '.message' && !others.some(isOfLine)
    this.#takesTimes = timestamp.text === '.timestamp'
    if (options.encoding === 'protobuf' && !options.record_uid && !relayed) this.fields = logFields(options)
  }

  #candidate({ segments: [name, ...rest] }: FieldPath): Candidate {
    const slot = this.#names.slot(name)
    return { slot, rest: rest.map(step => (typeof step === 'string' ? new MemberName(step) : step)) }
  }

  add(batch: EventBatch, i: number, to: RecordWriter): void {
    const flags = batch.look(i)
    const from = to.to.length
    to.openRecord()
    if (this.#takesLines && (flags & (DECODED | MODIFIED | INVALID)) === 0) this.#addLine(batch, i, flags, to)
    else {
      const { bytes, start, end } = encodedEvent(JSON_OBJECTS, batch, i)
      const open = skipSpace(bytes, start, end)
      this.#addObject(batch, i, bytes, open, end, to)
      if (hasRepeatedNames()) {
        to.close()
        to.to.length = from
        to.openRecord()
        const unique = withUniqueNames(bytes, open, end)
        this.#addObject(batch, i, unique.bytes, 0, unique.length - 1, to)
      }
    }
    to.close()
  }

  #addLine(batch: EventBatch, i: number, flags: number, to: RecordWriter): void {
    const { origin, receivedAt, chunk, starts, ends } = batch
    this.#addObserved(receivedAt, to)
    if (this.#takesTimes) to.time(EVENT_TIME, Math.floor(receivedAt / 1000), Math.floor(receivedAt % 1000) * 1_000_000)
    to.openBody()
    to.text(chunk, starts[i]!, ends[i]!)
    to.close()
    to.openAttributes()
    for (const { name, bytes } of this.#ofOrigin) {
      if (this.#takesTimes && name === 'timestamp') continue
      const value = originField(origin, receivedAt, flags, name)
      if (value === undefined) continue
      to.openAttribute(bytes, 0, bytes.length)
      addText(to, value)
      to.close()
    }
    this.#addUid(batch, i, to)
    to.close()
  }

  #addObserved(receivedAt: number, to: RecordWriter): void {
    to.time(OBSERVED_TIME, Math.floor(receivedAt / 1000), Math.floor(receivedAt % 1000) * 1_000_000)
  }

  /** Adds event `i`, whose JSON is bytes[open, end). */
  #addObject(batch: EventBatch, i: number, bytes: Buffer, open: number, end: number, to: RecordWriter): void {
    if (this.#relayed) this.#addRelayed(batch, i, bytes, open, end, to)
    else this.#addEvent(batch, i, bytes, open, end, to)
  }

  #addEvent(batch: EventBatch, i: number, bytes: Buffer, open: number, end: number, to: RecordWriter): void {
    this.#addObserved(batch.receivedAt, to)
    const from = to.to.length
    to.openAttributes()
    this.#walk(bytes, open, end, to)
    const ofBody = this.#find(this.#body)
    if (ofBody) this.#take(ofBody)
    const [bodyStart, bodyEnd] = [found.start, found.end]
    const time = this.#timeOf()
    const severity = this.#severityOf()
    const trace = this.#idOf(this.#trace, TRACE)
    const span = this.#idOf(this.#span, SPAN)
    for (let slot = 0; slot < this.#starts.length; slot++) if (ofBody) this.#addMember(slot, to)
    this.#addUid(batch, i, to)
    to.close()
    if (!ofBody) {
      // Without a body field, the body has all fields of the event.
      to.to.length = from
      to.openAttributes()
      this.#addUid(batch, i, to)
      to.close()
    }
    to.openBody()
    if (!ofBody) addValue(to, bytes, open, end)
    else if (ofBody.rest.length > 0 || this.#json[bodyStart] !== QUOTE) addValue(to, this.#json, bodyStart, bodyEnd)
    else if (this.#escaped[ofBody.slot] === 0) to.text(this.#json, bodyStart + 1, bodyEnd - 1)
    else to.text(unescapedText(this.#json, bodyStart, bodyEnd), 0, unescapedLength)
    to.close()
    if (time) to.time(EVENT_TIME, time.seconds, nanosOf(time))
    if (severity?.number !== undefined) to.number(SEVERITY_NUMBER, severity.number)
    if (severity?.word !== undefined) to.word(SEVERITY_TEXT, severity.word)
    if (trace !== undefined) to.id(TRACE_ID, trace)
    if (span !== undefined) to.id(SPAN_ID, span)
  }

  /** Adds event `i`, which the source `otlp` made of a record. */
  #addRelayed(batch: EventBatch, i: number, bytes: Buffer, open: number, end: number, to: RecordWriter): void {
    const parts = this.#relayed!
    to.openAttributes()
    this.#walk(bytes, open, end, to)
    const json = this.#json
    if (this.#find([parts.attributes]) && json[found.start] === OPEN_OBJECT)
      this.#addMembers(found.start, found.end, to)
    this.#addUid(batch, i, to)
    to.close()
    if (this.#find([parts.message])) {
      to.openBody()
      addValue(to, json, found.start, found.end)
      to.close()
    }
    const time = this.#timeOf([parts.timestamp])
    if (time) to.time(EVENT_TIME, time.seconds, nanosOf(time))
    const observed = this.#timeOf([parts.observed_timestamp])
    if (observed) to.time(OBSERVED_TIME, observed.seconds, nanosOf(observed))
    else this.#addObserved(batch.receivedAt, to)
    for (const [part, field] of NUMBERS) {
      const number = this.#find([parts[part]]) ? Number(this.#text()) : 0
      if (number > 0 && number < 2 ** 32) to.number(field, Math.floor(number))
    }
    for (const [part, field] of WORDS) {
      const word = this.#find([parts[part]]) ? this.#text() : undefined
      if (word !== undefined) to.word(field, word)
    }
    for (const [part, field] of IDS) {
      const id = this.#find([parts[part]]) ? this.#text() : undefined
      if (id !== undefined && HEX.test(id)) to.id(field, id)
    }
  }

  #addMembers(start: number, end: number, to: RecordWriter): void {
    eachMember(this.#json, start, end, (name, nameStart, nameEnd, _hash, json, from) => {
      to.openAttribute(name, nameStart, nameEnd)
      const until = addValue(to, json, from, end)
      to.close()
      return until
    })
  }

  /** Writes attributes, and notes the positions of members that may become other parts. */
  #walk(b: Buffer, start: number, end: number, to: RecordWriter): void {
    this.#starts.fill(NOWHERE)
    eachMember(b, start, end, (name, nameStart, nameEnd, hash, json, from) => {
      const isString = json[from] === QUOTE
      const slot = this.#mayBeOther[hash] === 0 ? -1 : slotOf(name, nameStart, nameEnd, this.#names)
      if (slot < 0 && !isString) {
        to.openAttribute(name, nameStart, nameEnd)
        const until = addValue(to, json, from, end)
        to.close()
        return until
      }
      const until = valueEnd(json, from, end)
      const hasEscape = isString && sawEscape
      if (slot >= 0) {
        this.#json = json
        this.#starts[slot] = from
        this.#ends[slot] = until
        this.#escaped[slot] = hasEscape ? 1 : 0
      } else if (!hasEscape) to.textAttribute(name, nameStart, nameEnd, json, from + 1, until - 1)
      else {
        const text = unescapedText(json, from, until)
        to.textAttribute(name, nameStart, nameEnd, text, 0, unescapedLength)
      }
      return until
    })
  }

  /** Returns the first candidate with a value. `found` then has the position of this value. */
  #find(candidates: readonly Candidate[]): Candidate | undefined {
    for (const candidate of candidates) {
      const start = this.#starts[candidate.slot]!
      if (start === NOWHERE) continue
      found.start = start
      found.end = this.#ends[candidate.slot]!
      if (candidate.rest.length > 0 && !findPath(this.#json, start, found.end, candidate.rest)) continue
      if (this.#json[found.start] !== N) return candidate
    }
    return undefined
  }

  /** If a field became a part of the record, it is not also an attribute. A nested field stays in its attribute. */
  #take({ slot, rest }: Candidate): void {
    if (rest.length === 0) this.#starts[slot] = NOWHERE
  }

  #addMember(slot: number, to: RecordWriter): void {
    if (this.#starts[slot] === NOWHERE) return
    const name = this.#names.bytes[slot]!
    to.openAttribute(name, 0, name.length)
    addValue(to, this.#json, this.#starts[slot]!, this.#ends[slot]!)
    to.close()
  }

  /** Returns the string or number at `found` as text, or undefined if the value has another type. */
  #text(): string | undefined {
    const first = this.#json[found.start]!
    const isScalar = first === QUOTE || first === MINUS || (first >= ZERO && first <= NINE)
    return isScalar ? tokenText(this.#json, found.start, found.end) : undefined
  }

  #timeOf(candidates = this.#time): TimeParts | undefined {
    const candidate = this.#find(candidates)
    const text = candidate && this.#text()
    const time = text === undefined ? undefined : this.#timeText.partsOf(text)
    if (!time || !(time.seconds >= 0 && time.seconds <= MOST_SECONDS)) return undefined
    this.#take(candidate!)
    return time
  }

  #severityOf(): { number: number | undefined; word?: string } | undefined {
    const candidate = this.#find(this.#severity)
    const text = candidate && this.#text()
    if (text === undefined) return undefined
    // A severity that is a number also stays an attribute, because the record keeps only words as severity text.
    if (this.#json[found.start] !== QUOTE || /^\d+$/.test(text)) return { number: severityOfNumber(Number(text)) }
    this.#take(candidate!)
    return { number: severityOfWord(text), word: text }
  }

  #idOf(candidates: readonly Candidate[], form: RegExp): string | undefined {
    const candidate = this.#find(candidates)
    if (!candidate || this.#json[found.start] !== QUOTE) return undefined
    const text = tokenText(this.#json, found.start, found.end)
    if (!form.test(text)) return undefined
    this.#take(candidate)
    return text.toLowerCase()
  }

  #addUid(batch: EventBatch, i: number, to: RecordWriter): void {
    if (!this.#hasUid) return
    to.openAttribute(UID, 0, UID.length)
    addText(to, eventId(batch, i))
    to.close()
  }
}

const nanosOf = ({ digits }: TimeParts) => Number(digits.padEnd(9, '0'))

/** The kernel does not handle nested fields, or fields that may become two parts of a record. */
function logFields({ timestamp, body, severity, trace_id, span_id, resource, scope }: OtlpOptions): LogFields {
  const uses = new Map<string, number>()
  for (const [use, paths] of [
    [USE.time, [timestamp]],
    [USE.body, body],
    [USE.severity, severity],
    [USE.trace, trace_id],
    [USE.span, span_id],
  ] as const) {
    for (const { segments } of paths) {
      uses.set(segments[0], segments.length > 1 || uses.has(segments[0]) ? USE.left : use)
    }
  }
  const grouped = [...Object.values(resourceTemplates({ resource })), scope]
    .flatMap(templatePaths)
    .map(({ segments: [name] }) => name)
  return { uses, grouped: [...new Set(grouped)], severities: SEVERITY_NUMBERS }
}
