import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import type { MemberName } from '../../lib/formats/json-members.js'
import {
  SLOT,
  sawEscape,
  skipSpace,
  slotOf,
  stringEnd,
  valueEnd,
  type WantedNames,
} from '../../lib/formats/json-scan.js'
import { writeBytes } from '../../lib/formats/json-string.js'
import type { Members } from '../../lib/formats/members.js'
import { addUnique } from '../../lib/formats/unique-members.js'
import type { EventBatch } from './batch.js'
import { EventJson } from './event-json.js'

const COMMA = 0x2c
const COLON = 0x3a
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

/**
 * Merges many fields into events at once, whatever their names are, as Object.assign does: a field that the event has
 * keeps its place and gets the new value, and the others follow. The event stays bytes. Readers find the new values.
 */
export class EventMerger {
  readonly #wanted: WantedNames
  readonly #json = new EventJson()
  readonly #scratch = new GrowingBytes()
  readonly #unique = new GrowingBytes()
  #slots = new Int32Array(0)
  /** Where the next byte is written, and to what. */
  #to: Buffer = Buffer.alloc(0)
  #at = 0
  #isFirst = true
  /** Members of the event that follow one another and stay as they are: [start, end), and what moves their slots. */
  #runStart = -1
  #runEnd = 0
  #runBy = 0
  /** 1 for each of the new members that was written. */
  readonly #written = new Uint8Array(64)

  constructor(wanted: WantedNames) {
    this.#wanted = wanted
  }

  /** Merges `members` into event `i`. `without`: a field at the top of the event that is removed before. */
  merge(batch: EventBatch, i: number, members: Members, without?: MemberName): void {
    const texts = batch.textsToChange()
    const json = this.#json
    json.read(batch, i)
    const size = json.end - json.start + members.out.length + 2
    const start = texts.reserve(size, size * (batch.length - i))
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

  #emptySlots(): Int32Array {
    const length = this.#wanted.names.length * SLOT
    if (this.#slots.length !== length) this.#slots = new Int32Array(length)
    return this.#slots.fill(0)
  }

  /** Writes the event with members whose names are known. False if a name of the event has escapes. */
  #mergeKnown(members: Members, without: MemberName | undefined): boolean {
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
        if (n >= 0) this.#addMember(members, n)
      } else {
        this.#keep(nameStart, p)
        const slot = slotOf(bytes, nameStart + 1, nameEnd, this.#wanted)
        if (slot >= 0) this.#putSlot(slot, valueStart + this.#runBy, p + this.#runBy, special)
      }
      p = skipSpace(bytes, p, end)
      if (bytes[p] === COMMA) p = skipSpace(bytes, p + 1, end)
    }
    this.#endRun()
    for (let n = 0; n < members.count; n++) this.#addMember(members, n)
    this.#to[this.#at++] = CLOSE_OBJECT
    return true
  }

  /** Notes that the member [start, end) of the event stays. */
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

  /** Writes new member `n` unless it was written before. */
  #addMember({ out, nameStarts, nameEnds, valueStarts, valueEnds, escaped }: Members, n: number): void {
    if (this.#written[n] === 1) return
    this.#written[n] = 1
    this.#comma()
    const from = nameStarts[n]! - 1
    const by = this.#at - from
    this.#at = writeBytes(out.bytes, from, valueEnds[n]!, this.#to, this.#at)
    const slot = slotOf(out.bytes, nameStarts[n]!, nameEnds[n]!, this.#wanted)
    if (slot >= 0) this.#putSlot(slot, valueStarts[n]! + by, valueEnds[n]! + by, escaped[n]!)
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

  /** Writes the event with any members, each name once. */
  #mergeAny({ out }: Members, without: MemberName | undefined): GrowingBytes {
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
