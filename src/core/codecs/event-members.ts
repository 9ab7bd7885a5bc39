import { isDigit, LF, MINUS, POINT, QUOTE, ZERO } from '../../lib/formats/ascii.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import type { ByteSink } from '../../lib/formats/json-string.js'
import { MemberPlaces, NAME, VALUE } from '../../lib/formats/member-places.js'
import { exactJson, normalJson } from '../../lib/formats/normal-json.js'
import type { EventBatch } from '../event/batch.js'
import type { Fields } from '../event/event-fields.js'
import { EventJson } from '../event/event-json.js'

/** Maximum number of members whose names are compared with one another. */
const MOST_COMPARED = 64
/**
 * JavaScript writes a number unchanged if it has at most MOST_DIGITS digits, with at most MOST_FRACTION digits after
 * the point.
 */
const MOST_DIGITS = 15
const MOST_FRACTION = 6
/** Encoded lines are passed on in portions of at least this many bytes. */
const AT_ONCE = 8 * 1024

/** The fields of one event without duplicates, in the order that a JavaScript object would have. */
export class EventMembers {
  readonly #places = new MemberPlaces()
  readonly #json = new EventJson()
  readonly #ordered = new GrowingBytes()
  #source: Buffer = Buffer.alloc(0)
  /** bytes[start, end) is a name, or the text of a value. */
  bytes: Buffer = this.#source
  start = 0
  end = 0
  /** If the value is a string with escapes: the unescaped string. */
  string: string | undefined

  get count(): number {
    return this.#places.count
  }

  read(batch: EventBatch, i: number): void {
    this.#json.read(batch, i)
    this.#use(this.#json.bytes, this.#json.start, this.#json.end)
  }

  readFields(fields: Fields): void {
    const json = Buffer.from(`${exactJson(fields)}\n`)
    this.#use(json, 0, json.length - 1)
  }

  #use(b: Buffer, start: number, end: number): void {
    this.#places.read(b, start, end)
    this.#source = b
    if (this.#isAsObject()) return
    const ordered = this.#ordered
    ordered.clear()
    ordered.addText(normalJson(b, start, end))
    ordered.addByte(LF)
    this.#places.read(ordered.bytes, 0, ordered.length - 1)
    this.#source = ordered.bytes
  }

  /** Whether JSON.parse would return an object with the same members in the same order. */
  #isAsObject(): boolean {
    const { count, nameStarts, nameEnds, escapes } = this.#places
    const b = this.#source
    if (count > MOST_COMPARED) return false
    let lengths = 0
    for (let n = 0; n < count; n++) {
      const start = nameStarts[n]!
      const length = nameEnds[n]! - start
      // In a JavaScript object, members with numeric names come before all other members.
      if ((escapes[n]! & NAME) !== 0 || isDigit(b[start]!)) return false
      if ((lengths >> length) & 1) for (let m = 0; m < n; m++) if (this.#areSame(m, n)) return false
      lengths |= 1 << length
    }
    return true
  }

  #areSame(m: number, n: number): boolean {
    const { nameStarts, nameEnds } = this.#places
    const b = this.#source
    const [one, other, length] = [nameStarts[m]!, nameStarts[n]!, nameEnds[n]! - nameStarts[n]!]
    if (nameEnds[m]! - one !== length) return false
    for (let i = 0; i < length; i++) if (b[one + i] !== b[other + i]) return false
    return true
  }

  name(n: number): this {
    const { nameStarts, nameEnds, escapes } = this.#places
    const [start, end] = [nameStarts[n]!, nameEnds[n]!]
    if (escapes[n]! & NAME) this.#useText(JSON.parse(this.#source.toString('utf8', start - 1, end + 1)) as string)
    else this.#useBytes(start, end)
    return this
  }

  isString(n: number): boolean {
    return this.#first(n) === QUOTE
  }

  isNumber(n: number): boolean {
    return this.#first(n) === MINUS || isDigit(this.#first(n))
  }

  isNull(n: number): boolean {
    return this.#first(n) === 0x6e
  }

  #first(n: number): number {
    return this.#source[this.#places.valueStarts[n]!]!
  }

  /** Sets bytes[start, end) to the text of member `n`: the content of a string, or the JSON of another value. */
  text(n: number): this {
    const { valueStarts, valueEnds, escapes } = this.#places
    const b = this.#source
    const [start, end] = [valueStarts[n]!, valueEnds[n]!]
    this.string = undefined
    const first = b[start]!
    if (first === QUOTE && (escapes[n]! & VALUE) === 0) this.#useBytes(start + 1, end - 1)
    else if (first === QUOTE) {
      this.string = JSON.parse(b.toString('utf8', start, end)) as string
      this.#useText(this.string)
    } else if (first === 0x74 || first === 0x66 || first === 0x6e || isUsualNumber(b, start, end)) {
      this.#useBytes(start, end)
    } else this.#useText(normalJson(b, start, end))
    return this
  }

  /** Sets bytes[start, end) to the content of the string of member `n`, with its escapes. */
  inside(n: number): this {
    this.#useBytes(this.#places.valueStarts[n]! + 1, this.#places.valueEnds[n]! - 1)
    return this
  }

  #useBytes(start: number, end: number): void {
    this.bytes = this.#source
    this.start = start
    this.end = end
  }

  #useText(text: string): void {
    this.bytes = Buffer.from(text)
    this.start = 0
    this.end = this.bytes.length
  }
}

/** If true, JavaScript would write the number unchanged. If false, it may still do so. */
function isUsualNumber(b: Buffer, start: number, end: number): boolean {
  let p = b[start] === MINUS ? start + 1 : start
  if (end - p > MOST_DIGITS || (b[p] === ZERO && end - p === 1 && p > start)) return false
  while (p < end && isDigit(b[p]!)) p++
  if (p === end) return true
  if (b[p] !== POINT || end - p - 1 > MOST_FRACTION || b[end - 1] === ZERO) return false
  for (p++; p < end; p++) if (!isDigit(b[p]!)) return false
  return true
}

/** Encodes events as lines. `write` writes the line of one event. */
export class MembersEncoder {
  readonly #write: (members: EventMembers, out: GrowingBytes) => void
  readonly #members = new EventMembers()
  readonly #out = new GrowingBytes()

  constructor(write: (members: EventMembers, out: GrowingBytes) => void) {
    this.#write = write
  }

  line(fields: Fields): string {
    this.#members.readFields(fields)
    this.#out.clear()
    this.#write(this.#members, this.#out)
    return this.#out.bytes.toString('utf8', 0, this.#out.length)
  }

  write(batch: EventBatch, to: ByteSink): void {
    const out = this.#out
    out.clear()
    for (let i = 0; i < batch.length; i++) {
      this.#members.read(batch, i)
      this.#write(this.#members, out)
      out.addByte(LF)
      if (out.length >= AT_ONCE) out.giveTo(to)
    }
    if (out.length > 0) out.giveTo(to)
  }
}
