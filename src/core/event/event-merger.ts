import { CLOSE_OBJECT, COLON, COMMA, OPEN_OBJECT, QUOTE } from '../../lib/formats/ascii.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { addUnique, type MemberName } from '../../lib/formats/json-members.js'
import {
  SLOT,
  sawEscape,
  skipSpace,
  slotOf,
  stringEnd,
  valueEnd,
  type WantedNames,
} from '../../lib/formats/json-scan.js'
import { escapeInto, MOST_ESCAPED, writeBytes } from '../../lib/formats/json-string.js'
import type { FieldMembers } from '../../lib/formats/members.js'
import type { EventBatch } from './batch.js'
import { ORIGIN_FIELDS } from './event.js'
import { EventJson } from './event-json.js'
import { INVALID, MODIFIED } from './flags.js'
import { OriginTail, originBit } from './origin-tail.js'

const MESSAGE = Buffer.from('"message":"')
/** The fields of an event whose message is the whole line. `bit`: the bit of the field, as in OriginTail. */
const ORIGINAL = ['message', ...ORIGIN_FIELDS].map(name => ({
  name,
  bytes: Buffer.from(name),
  bit: originBit(name),
}))

/**
 * Merges any number of fields with any names into events. If the event already has a field, the new value takes the
 * position of the old value, unless the old value came from the origin of the line. Other fields are appended. The
 * event is still stored as bytes. Readers find the new values in these bytes.
 */
export class EventMerger {
  readonly #wanted: WantedNames
  readonly #json = new EventJson()
  readonly #tail = new OriginTail()
  readonly #scratch = new GrowingBytes()
  readonly #unique = new GrowingBytes()
  #slots = new Int32Array(0)
  /** The buffer to which the merger writes, and the position of the next byte. */
  #to: Buffer = Buffer.alloc(0)
  #at = 0
  #isFirst = true
  /** The range [start, end) of consecutive unchanged members of the event, and the offset by which their slots move. */
  #runStart = -1
  #runEnd = 0
  #runBy = 0
  /** For each new member: 1 if it was already written. */
  readonly #written = new Uint8Array(64)

  constructor(wanted: WantedNames) {
    this.#wanted = wanted
  }

  /** Merges `members` into event `i`. `without`: a top-level field to remove first. */
  merge(batch: EventBatch, i: number, members: FieldMembers, without?: MemberName): void {
    const texts = batch.textsToChange()
    const isLine = batch.origin.codec.form === 'message' && (batch.look(i) & (INVALID | MODIFIED)) === 0
    if (isLine && !members.isUnclear) {
      this.#mergeLine(batch, i, members, without)
      return
    }
    const json = this.#json
    json.read(batch, i)
    const size = json.end - json.start + members.out.length + 2
    const start = texts.reserve(size, (size + (size >> 3)) * (batch.length - i))
    this.#to = texts.bytes
    this.#at = start
    const slots = this.#emptySlots()
    if (!members.isUnclear && this.#mergeKnown(members, without)) {
      texts.end(this.#at)
      batch.setText(i, start, this.#at, slots)
      return
    }
    const unique = this.#mergeAny(members, without)
    writeBytes(unique.bytes, 0, unique.length, texts.bytes, start)
    texts.end(start + unique.length)
    batch.setText(i, start, start + unique.length)
  }

  /** Writes an event whose `message` is the whole line. Its other fields come from the batch's origin. */
  #mergeLine(batch: EventBatch, i: number, members: FieldMembers, without: MemberName | undefined): void {
    const texts = batch.textsToChange()
    const line = batch.starts[i]!
    const lineEnd = batch.ends[i]!
    let own = 0
    let hasMessage = false
    for (const { name, bytes, bit } of ORIGINAL) {
      if (members.find(bytes, 0, bytes.length) < 0 && without?.text !== name) continue
      if (bit === 0) hasMessage = true
      else own |= bit
    }
    const tail = this.#tail.of(batch, batch.flags[i]!, own)
    const usual = MESSAGE.length + lineEnd - line + members.out.length + tail.length + 2
    const most = usual + (lineEnd - line) * (MOST_ESCAPED - 1)
    const start = texts.reserve(most, (usual + (usual >> 3)) * (batch.length - i))
    const to = texts.bytes
    const slots = this.#emptySlots()
    this.#to = to
    to[start] = OPEN_OBJECT
    this.#at = start + 1
    this.#isFirst = true
    this.#written.fill(0, 0, members.count)
    if (!hasMessage) {
      this.#isFirst = false
      this.#at = writeBytes(MESSAGE, 0, MESSAGE.length, to, this.#at)
      const from = this.#at
      this.#at = escapeInto(to, from, batch.chunk, line, lineEnd)
      to[this.#at++] = QUOTE
      const slot = this.#wanted.names.indexOf('message')
      if (slot >= 0) this.#putSlot(slot, from - 1, this.#at, this.#at - 1 - from === lineEnd - line ? 0 : 1)
    }
    const skipped = this.#isFirst ? 1 : 0
    // Omits the closing brace. If no member precedes the tail, also omits its first comma.
    const tailStart = this.#at - skipped
    this.#at = writeBytes(tail, skipped, tail.length - 1, to, this.#at)
    if (tail.length > 1) this.#isFirst = false
    this.#findInTail(tailStart)
    if (members.count > 0) this.#addMembers(members, 0, members.count)
    to[this.#at++] = CLOSE_OBJECT
    texts.end(this.#at)
    batch.setText(i, start, this.#at, slots)
  }

  /** Writes the slots of the origin's fields, which are all strings. `from`: the comma before the first field. */
  #findInTail(from: number): void {
    const to = this.#to
    for (let p = from; p < this.#at - 1; ) {
      const nameEnd = stringEnd(to, p + 2)
      const slot = slotOf(to, p + 2, nameEnd, this.#wanted)
      const valueStart = nameEnd + 2
      p = stringEnd(to, valueStart + 1) + 1
      if (slot >= 0) this.#putSlot(slot, valueStart, p, sawEscape ? 1 : 0)
    }
  }

  #emptySlots(): Int32Array {
    const length = this.#wanted.names.length * SLOT
    if (this.#slots.length !== length) this.#slots = new Int32Array(length)
    return this.#slots.fill(0)
  }

  /** Writes the event with `members` (`isUnclear` must be false). Returns false if a name in the event has escapes. */
  #mergeKnown(members: FieldMembers, without: MemberName | undefined): boolean {
    const { bytes, start, end } = this.#json
    this.#written.fill(0, 0, members.count)
    this.#to[this.#at++] = OPEN_OBJECT
    this.#isFirst = true
    this.#runStart = -1
    let p = skipSpace(bytes, start + 1, end)
    while (bytes[p] !== CLOSE_OBJECT) {
      const nameStart = p
      const nameEnd = stringEnd(bytes, p + 1)
      if (sawEscape) return false
      p = bytes[nameEnd + 1] === COLON ? nameEnd + 2 : skipSpace(bytes, nameEnd + 1, end) + 1
      p = skipSpace(bytes, p, end)
      const valueStart = p
      p = valueEnd(bytes, p, end)
      const special = sawEscape ? 1 : 0
      const n = members.find(bytes, nameStart + 1, nameEnd)
      if (n >= 0 || (without && isNamed(bytes, nameStart + 1, nameEnd, without))) {
        this.#endRun()
        if (n >= 0 && this.#written[n] === 0) {
          this.#written[n] = 1
          this.#addMembers(members, n, n + 1)
        }
      } else {
        this.#keep(nameStart, p)
        const slot = slotOf(bytes, nameStart + 1, nameEnd, this.#wanted)
        if (slot >= 0) this.#putSlot(slot, valueStart + this.#runBy, p + this.#runBy, special)
      }
      p = skipSpace(bytes, p, end)
      if (bytes[p] === COMMA) p = skipSpace(bytes, p + 1, end)
    }
    this.#endRun()
    for (let n = 0; n < members.count; ) {
      const first = n
      while (n < members.count && this.#written[n] === 0) n++
      if (n > first) this.#addMembers(members, first, n)
      n++
    }
    this.#to[this.#at++] = CLOSE_OBJECT
    return true
  }

  #keep(start: number, end: number): void {
    if (this.#runStart < 0) {
      this.#comma()
      this.#runStart = start
      this.#runBy = this.#at - start
    }
    this.#runEnd = end
  }

  #endRun(): void {
    if (this.#runStart >= 0) this.#at = writeBytes(this.#json.bytes, this.#runStart, this.#runEnd, this.#to, this.#at)
    this.#runStart = -1
  }

  #addMembers(members: FieldMembers, first: number, after: number): void {
    const { out, nameStarts, nameEnds, valueStarts, valueEnds, escaped } = members
    this.#comma()
    const from = nameStarts[first]! - 1
    const by = this.#at - from
    this.#at = writeBytes(out.bytes, from, valueEnds[after - 1]!, this.#to, this.#at)
    if (this.#wanted.lengths === 0) return
    for (let n = first; n < after; n++) {
      const slot = slotOf(out.bytes, nameStarts[n]!, nameEnds[n]!, this.#wanted)
      if (slot >= 0) this.#putSlot(slot, valueStarts[n]! + by, valueEnds[n]! + by, escaped[n]!)
    }
  }

  #comma(): void {
    if (!this.#isFirst) this.#to[this.#at++] = COMMA
    this.#isFirst = false
  }

  #putSlot(slot: number, start: number, end: number, special: number): void {
    const slots = this.#slots
    const isAgain = slots[slot * SLOT] !== 0
    slots[slot * SLOT] = start
    slots[slot * SLOT + 1] = (end << 1) | (isAgain ? 1 : special)
  }

  /** Writes the event with `members` of any kind, without duplicate names. */
  #mergeAny({ out }: FieldMembers, without: MemberName | undefined): GrowingBytes {
    const { bytes, start, end } = this.#json
    const all = this.#scratch
    all.clear()
    addUnique(all, bytes, start, end, without?.text)
    all.length--
    if (all.length > 1 && out.length > 0) all.addByte(COMMA)
    all.add(out.bytes, 0, out.length)
    all.addByte(CLOSE_OBJECT)
    this.#unique.clear()
    addUnique(this.#unique, all.bytes, 0, all.length)
    return this.#unique
  }
}

function isNamed(b: Buffer, start: number, end: number, { bytes }: MemberName): boolean {
  if (end - start !== bytes.length) return false
  for (let i = 0; i < bytes.length; i++) if (b[start + i] !== bytes[i]) return false
  return true
}
