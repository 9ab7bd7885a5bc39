import { OPEN_ARRAY, OPEN_OBJECT, QUOTE } from '../../lib/formats/ascii.js'
import { findItem, findMember, found, MemberName } from '../../lib/formats/json-members.js'
import { isLongInteger, LONGEST_PLAIN_NUMBER, plainInteger } from '../../lib/formats/json-numbers.js'
import { SLOT, sawEscape, scanValue, stringEnd, WantedNames } from '../../lib/formats/json-scan.js'
import { exactJson, normalJson } from '../../lib/formats/normal-json.js'
import type { EventBatch } from './batch.js'
import { originField } from './event.js'
import { EventJson } from './event-json.js'
import { type FieldPath, type PathSegment, valueAt } from './field-path.js'
import { DECODED, INVALID, MODIFIED } from './flags.js'

export const MISSING = 0
export const NULL_VALUE = 1
export const STRING_VALUE = 2
export const NUMBER = 3
export const BOOLEAN = 4
export const OBJECT_VALUE = 5
export const ARRAY_VALUE = 6
export type ValueKind = 0 | 1 | 2 | 3 | 4 | 5 | 6

const EMPTY = Buffer.alloc(0)

/**
 * Reads one field of the events of a batch. If the event was not modified, reads the bytes of its line. `load` moves
 * the reader to an event. The reader's properties are valid until the next `load`. One reader serves all events, so
 * that reading allocates no memory.
 */
export class FieldReader {
  kind: ValueKind = MISSING
  /** If `plain` is true, the value's text in UTF-8 is bytes[start, end). */
  bytes: Buffer = EMPTY
  start = 0
  end = 0
  /** Whether `bytes` contains the text of the value. If not, `text` builds it. */
  plain = false

  readonly #path: FieldPath
  readonly #wanted: WantedNames
  readonly #slot: number
  readonly #isMessage: boolean
  readonly #isTimestamp: boolean
  readonly #rest: readonly PathSegment[]
  /** `#rest`, prepared for a search in JSON. */
  readonly #steps: readonly (MemberName | number)[]
  /** The second segment, if it is a name. A scan of the first segment's object finds it. */
  readonly #inner: WantedNames | undefined
  readonly #innerOut = new Int32Array(SLOT)
  /** The value, if it is not in `bytes`. */
  #value: unknown
  /** The value, if it is a `plain` number in `bytes`. NaN: it has too many digits. */
  #integer = 0
  #event: EventJson | undefined

  constructor(path: FieldPath, wanted: WantedNames) {
    this.#path = path
    this.#wanted = wanted
    this.#slot = wanted.slot(path.segments[0])
    this.#rest = path.segments.slice(1)
    this.#steps = this.#rest.map(segment => (typeof segment === 'string' ? new MemberName(segment) : segment))
    this.#isMessage = path.segments[0] === 'message' && this.#rest.length === 0
    this.#isTimestamp = path.segments[0] === 'timestamp' && this.#rest.length === 0
    if (typeof this.#rest[0] === 'string') {
      this.#inner = new WantedNames()
      this.#inner.slot(this.#rest[0])
    }
  }

  load(batch: EventBatch, i: number): ValueKind {
    const flags = batch.look(i)
    if (flags & (MODIFIED | INVALID)) return this.#loadChanged(batch, i)
    if (flags & DECODED) {
      if (batch.origin.codec.form !== 'object') return this.#loadField(batch, i, flags)
      return this.#loadJson(batch.chunk, batch.slotStart(i, this.#slot), batch.slotEnd(i, this.#slot))
    }
    if (this.#isMessage) {
      return this.#setBytes(STRING_VALUE, batch.chunk, batch.starts[i]!, batch.ends[i]!, true)
    }
    return this.#loadOrigin(batch, flags)
  }

  /** Whether the value is the time of receipt, the same for all events of the batch. */
  isReceipt({ origin, texts }: EventBatch): boolean {
    return this.#isTimestamp && origin.codec.form === 'message' && !texts
  }

  /** Returns the slot of the field in lines of JSON; -1 if the field has no slot or the first line is not DECODED. */
  slotIn(batch: EventBatch): number {
    const slot = batch.origin.codec.form === 'object' ? this.slotInTexts(batch) : -1
    return slot >= 0 && (batch.look(0) & DECODED) !== 0 ? slot : -1
  }

  /** Returns the slot of the field in the texts of changed events; -1 if the field has no slot. */
  slotInTexts({ origin }: EventBatch): number {
    return origin.wanted === this.#wanted && this.#rest.length === 0 ? this.#slot : -1
  }

  /** Sets `among[i]` from 1 to 0 for each event whose value does not satisfy a test. */
  narrow(batch: EventBatch, among: Uint8Array, holds: (reader: FieldReader) => boolean): void {
    const slot = this.slotIn(batch)
    const { length, chunk, flags, stride } = batch
    const slots = slot < 0 ? undefined : batch.slots
    for (let i = 0, at = slot * SLOT; i < length; i++, at += stride) {
      if (among[i] !== 1) continue
      if (slots && (flags[i]! & (DECODED | MODIFIED | INVALID)) === DECODED) {
        this.#loadJson(chunk, slots[at]!, slots[at + 1]!)
      } else this.load(batch, i)
      if (!holds(this)) among[i] = 0
    }
  }

  /** Loads a field of a line from the slots that `putSlot` wrote. */
  #loadField(batch: EventBatch, i: number, flags: number): ValueKind {
    const start = batch.slotStart(i, this.#slot) - 1
    if (start < 0) return this.#loadOrigin(batch, flags)
    const end = batch.slotEnd(i, this.#slot)
    if (end & 1) {
      const value = batch.origin.codec.value(batch.chunk, start, end >> 1, this.#path.segments[0], batch.receivedAt)
      return value === undefined ? this.#loadOrigin(batch, flags) : this.setValue(valueAt(value, this.#rest))
    }
    if (this.#rest.length > 0) return this.setValue(undefined)
    return this.#setBytes(STRING_VALUE, batch.chunk, start, end >> 1, true)
  }

  /** Loads a field that the line itself does not contain. */
  #loadOrigin(batch: EventBatch, flags: number): ValueKind {
    const [name] = this.#path.segments
    const value = this.#rest.length === 0 ? originField(batch.origin, batch.receivedAt, flags, name) : undefined
    return this.setValue(value)
  }

  #loadChanged(batch: EventBatch, i: number): ValueKind {
    const { texts } = batch
    // A line that is not valid UTF-8 is decoded without its slots.
    if (!texts?.has(i)) return this.loadJson(batch, i)
    return this.#loadJson(texts.bytes, texts.slotStart(i, this.#slot), texts.slotEnd(i, this.#slot))
  }

  /** Loads the field from the JSON of the whole event, without slots. */
  protected loadJson(batch: EventBatch, i: number): ValueKind {
    const event = (this.#event ??= new EventJson())
    event.read(batch, i)
    return this.#walk(event.bytes, event.start, event.end, -1)
  }

  /** Loads a field of a JSON object from the two numbers in the field's slot. */
  #loadJson(bytes: Buffer, start: number, end: number): ValueKind {
    if (start === 0) return this.setValue(undefined)
    if (this.#rest.length > 0) {
      const inner = this.#inner
      if (!inner) return this.#walk(bytes, start, end >> 1, 0)
      this.#innerOut.fill(0)
      if (!scanValue(bytes, start, end >> 1, inner, this.#innerOut, 0)) return this.setValue(undefined)
      start = this.#innerOut[0]!
      if (start === 0) return this.setValue(undefined)
      end = this.#innerOut[1]!
      if (this.#rest.length > 1) return this.#walk(bytes, start, end >> 1, 1)
    }
    return this.#loadText(bytes, start, end >> 1, (end & 1) === 1)
  }

  /** Loads the value whose valid JSON is [start, end). */
  #loadText(bytes: Buffer, start: number, end: number, escaped: boolean): ValueKind {
    switch (bytes[start]) {
      case 0x22:
        if (!escaped) return this.#setBytes(STRING_VALUE, bytes, start + 1, end - 1, true)
        return this.#setBytes(STRING_VALUE, bytes, start, end, false)
      case 0x7b:
        return this.#setBytes(OBJECT_VALUE, bytes, start, end, false)
      case 0x5b:
        return this.#setBytes(ARRAY_VALUE, bytes, start, end, false)
      case 0x74:
      case 0x66:
        return this.#setBytes(BOOLEAN, bytes, start, end, true)
      case 0x6e:
        return this.#setBytes(NULL_VALUE, bytes, start, end, false)
      default:
        return this.#loadNumber(bytes, start, end)
    }
  }

  #loadNumber(bytes: Buffer, start: number, end: number): ValueKind {
    this.#integer = plainInteger(bytes, start, end)
    const isPlain = !Number.isNaN(this.#integer) || isLongInteger(bytes, start, end)
    return this.#setBytes(NUMBER, bytes, start, end, isPlain)
  }

  /**
   * Follows the steps from index `step` on, starting at the value whose valid JSON is [start, end). Step -1 is the
   * name of the field.
   */
  #walk(bytes: Buffer, start: number, end: number, step: number): ValueKind {
    for (; step < this.#steps.length; step++) {
      const to = step < 0 ? new MemberName(this.#path.segments[0]) : this.#steps[step]!
      const opens = bytes[start]
      const isFound =
        typeof to === 'number'
          ? opens === OPEN_ARRAY && findItem(bytes, start, end, to)
          : opens === OPEN_OBJECT && findMember(bytes, start, end, to)
      if (!isFound) return this.setValue(undefined)
      start = found.start
      end = found.end
    }
    const isEscaped = bytes[start] === QUOTE && stringEnd(bytes, start + 1) > 0 && sawEscape
    return this.#loadText(bytes, start, end, isEscaped)
  }

  #setBytes(kind: ValueKind, bytes: Buffer, start: number, end: number, plain: boolean): ValueKind {
    this.bytes = bytes
    this.start = start
    this.end = end
    this.plain = plain
    this.kind = kind
    return kind
  }

  protected setValue(value: unknown): ValueKind {
    this.#value = value
    this.plain = false
    this.bytes = EMPTY
    this.kind = kindOf(value)
    return this.kind
  }

  value(): unknown {
    if (this.kind === MISSING) return undefined
    if (this.kind === NULL_VALUE) return null
    if (this.bytes === EMPTY) return typeof this.#value === 'bigint' ? Number(this.#value) : this.#value
    const text = this.bytes.toString('utf8', this.start, this.end)
    if (this.kind === STRING_VALUE && this.plain) return text
    return JSON.parse(text)
  }

  /**
   * Returns the value as a text. A string stays unchanged, an integer that a double cannot hold keeps its digits,
   * String() formats any other number or boolean, and an object or array becomes compact JSON. Null and a missing value
   * have an empty text.
   */
  text(): string {
    if (this.plain) return this.bytes.toString('utf8', this.start, this.end)
    if (this.kind === OBJECT_VALUE || this.kind === ARRAY_VALUE) return this.json()
    const value = this.bytes === EMPTY ? this.#value : this.value()
    return value === undefined || value === null ? '' : String(value)
  }

  /** Returns the compact JSON of a number, object or array. If a double cannot hold a number, its digits are kept. */
  json(): string {
    if (this.bytes !== EMPTY) return normalJson(this.bytes, this.start, this.end)
    return this.kind === NUMBER ? String(this.#value) : exactJson(this.#value)
  }

  /** Returns a number, or the number that a string contains. Returns NaN for other values. */
  number(): number {
    if (this.kind !== NUMBER && this.kind !== STRING_VALUE) return Number.NaN
    if (this.kind === NUMBER && this.plain && !Number.isNaN(this.#integer)) return this.#integer
    if (this.kind === NUMBER && this.bytes !== EMPTY) return decimal(this.bytes, this.start, this.end)
    const value = this.value()
    return typeof value === 'string' ? parsedNumber(value) : Number(value)
  }
}

/**
 * Reads a field that was unknown when lines were first scanned. Reads the whole event, which takes longer but gives the
 * same value.
 */
export class LateFieldReader extends FieldReader {
  constructor(path: FieldPath) {
    super(path, new WantedNames())
  }

  override load(batch: EventBatch, i: number): ValueKind {
    return this.loadJson(batch, i)
  }
}

/** 10^0 to 10^15. Integers of up to 15 digits and these powers are exact doubles, so division rounds only once. */
const POWERS = Array.from({ length: LONGEST_PLAIN_NUMBER + 1 }, (_, digits) => 10 ** digits)

/** Parses the JSON number [start, end). Builds a string only for a long number or a number with an exponent. */
function decimal(bytes: Buffer, start: number, end: number): number {
  const negative = bytes[start] === 0x2d
  let number = 0
  let fraction = 0
  let p = negative ? start + 1 : start
  if (end - p <= LONGEST_PLAIN_NUMBER) {
    for (; p < end; p++) {
      const byte = bytes[p]!
      if (byte >= 0x30 && byte <= 0x39) number = number * 10 + byte - 0x30
      else if (byte === 0x2e) fraction = end - p - 1
      else break
    }
    if (p === end) return (negative ? -number : number) / POWERS[fraction]!
  }
  return Number(bytes.toString('latin1', start, end))
}

const DECIMAL = /^\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\s*$/

/** Parses a text as a decimal number, perhaps surrounded by white space; NaN for any other text. */
export function parsedNumber(text: string): number {
  return DECIMAL.test(text) ? Number(text) : Number.NaN
}

function kindOf(value: unknown): ValueKind {
  switch (typeof value) {
    case 'string':
      return STRING_VALUE
    case 'number':
    case 'bigint':
      return NUMBER
    case 'boolean':
      return BOOLEAN
    case 'object':
      return value === null ? NULL_VALUE : Array.isArray(value) ? ARRAY_VALUE : OBJECT_VALUE
    default:
      return MISSING
  }
}
