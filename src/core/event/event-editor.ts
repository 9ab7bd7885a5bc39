import { CLOSE_OBJECT, COLON, COMMA, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from '../../lib/formats/ascii.js'
import {
  addUnique,
  findItem,
  findMember,
  found,
  isEmptyObject,
  MemberName,
  memberOf,
} from '../../lib/formats/json-members.js'
import { SLOT, scanObject, type WantedNames } from '../../lib/formats/json-scan.js'
import { addEscaped } from '../../lib/formats/json-string.js'
import { jsonText } from '../../lib/formats/json-text.js'
import type { LineFormat } from '../codecs/field-lines.js'
import type { EventBatch } from './batch.js'
import { EventJson } from './event-json.js'
import { EventMerger } from './event-merger.js'
import type { FieldPath } from './field-path.js'
import { LineMerger } from './line-merger.js'
import { Splices } from './splices.js'

const NOTHING = Buffer.alloc(0)

export interface EditedField {
  readonly path: FieldPath
  /** The slot of the first name in the path; -1 while no reader uses that name. */
  slot: number
  readonly segments: readonly (MemberName | number)[]
  /** The path of the object or array that contains the field, as JSON. */
  readonly parent: string
}

/**
 * Changes fields in the bytes of events: `close` writes an event's JSON once, with the changed ranges replaced.
 * The result is the same as if the decoded object had been changed. One editor serves all events of a processor.
 *
 * Call `open` for an event, and `close` to write it. Do not await anything in between. Readers see the event as it was
 * before `open`.
 */
export class EventEditor {
  readonly #wanted: WantedNames
  readonly #splices = new Splices()
  readonly #json = new EventJson()
  /** For each field with a pending change: the slot of the first name in its path. */
  readonly #touched: number[] = []
  #batch: EventBatch | undefined
  #i = 0
  /** The JSON of the event, without pending changes, is bytes[start, end). Until the JSON is looked up, `end` is 0. */
  #bytes: Buffer = NOTHING
  #start = 0
  #end = 0
  /** The slots of the JSON in `#bytes`, without the fields that pending changes remove. */
  #slots = new Int32Array(0)
  /** Whether `#bytes` was written since `open`. */
  #isWritten = false
  /** Whether the event is empty after the pending changes. */
  #isEmpty = false
  /** The size of the JSON when the event was opened; 0 until the JSON is looked up. */
  #size = 0
  /** The object or array in which `#find` ended, and the number of path segments that led there. */
  #parentStart = 0
  #parentEnd = 0
  #depth = 0
  /**
   * Set by `#begin`: the range to replace, the start of the new bytes, the start of the value in the new bytes, and the
   * number of closing braces.
   */
  #from = 0
  #to = 0
  #textFrom = 0
  #valueFrom = 0
  #braces = 0

  constructor(wanted: WantedNames) {
    this.#wanted = wanted
  }

  /**
   * Creates a field that the editor can change. Call this in `create` only. If `isWanted`, the scan of a line also
   * finds the field, so that a change is faster. Pass false for a field that rarely changes.
   */
  field(path: FieldPath, isWanted = true): EditedField {
    const segments = path.segments.map(segment => (typeof segment === 'string' ? new MemberName(segment) : segment))
    const slot = isWanted ? this.#wanted.slot(path.segments[0]) : -1
    return { path, slot, segments, parent: JSON.stringify(path.segments.slice(0, -1)) }
  }

  /** Creates an object that merges many fields in one step. Call this in `create` only. */
  merger(): EventMerger {
    return new EventMerger(this.#wanted)
  }

  /** Creates a merger, which adds the fields of lines in `format` to the events. Call this in `create` only. */
  lineMerger(format: LineFormat, keepsMessage: boolean): LineMerger {
    return new LineMerger(this.#wanted, format, keepsMessage)
  }

  /** Begins to change event `i`. Discards changes that `close` has not written. */
  open(batch: EventBatch, i: number): void {
    this.#batch = batch
    this.#i = i
    this.#end = 0
    this.#size = 0
    this.#isWritten = false
    this.#splices.clear()
    this.#touched.length = 0
  }

  /** Size in bytes of the JSON when the event was opened; 0 if the JSON was not looked up yet. */
  get size(): number {
    return this.#size
  }

  /** Size in bytes of the event's JSON with the changes so far; 0 if the JSON was not looked up yet. */
  get grown(): number {
    return this.#end === 0 ? 0 : this.#end - this.#start + this.#splices.growth
  }

  /** Writes the pending changes of the event. Returns whether the event has changed. */
  close(): boolean {
    if (this.#splices.count > 0) this.#apply()
    if (this.#isWritten) this.#batch!.setText(this.#i, this.#start, this.#end, this.#slots)
    this.#batch = undefined
    return this.#isWritten
  }

  /**
   * Sets a field to the JSON value [start, end). Creates missing objects on the path. If the path leads through a value
   * that is not an object, or to a missing array item, changes nothing and returns false.
   */
  setJson(field: EditedField, json: Buffer, start = 0, end = json.length): boolean {
    if (!this.#begin(field)) return false
    this.#splices.text.add(json, start, end)
    return this.#finish(field)
  }

  /** Sets a field to a string: the UTF-8 text [start, end). See `setJson`. */
  setText(field: EditedField, text: Buffer, start = 0, end = text.length): boolean {
    if (!this.#begin(field)) return false
    this.#splices.text.addByte(QUOTE)
    addEscaped(this.#splices.text, text, start, end)
    this.#splices.text.addByte(QUOTE)
    return this.#finish(field)
  }

  /** Sets a field to a value. Throws if the value cannot be written as JSON. See `setJson`. */
  set(field: EditedField, value: unknown): boolean {
    const json: string | undefined = jsonText(value)
    if (json === undefined) throw new TypeError(`${typeof value} cannot be the value of a field`)
    if (!this.#begin(field)) return false
    this.#splices.text.addText(json)
    return this.#finish(field)
  }

  /** Removes a field or an array item. Returns whether it existed. */
  remove(field: EditedField): boolean {
    this.#touch(field)
    if (!this.#find(field, true)) return false
    if (found.count > 1) {
      this.#unify(field)
      return this.remove(field)
    }
    const { cutStart, cutEnd } = found
    const empties = found.isOnly && this.#depth === 0
    if (this.#splices.count > 0 && (empties || this.#splices.overlap(cutStart, cutEnd))) {
      this.#apply()
      return this.remove(field)
    }
    this.#splices.add(cutStart, cutEnd)
    if (this.#depth === 0 && field.slot >= 0) this.#slots[field.slot * SLOT] = 0
    if (empties) this.#isEmpty = true
    return true
  }

  /**
   * Moves a field to another path and replaces the value there. Within the same object, the field keeps its position.
   * If the field is missing or the other path cannot be set (see `setJson`), changes nothing and returns false.
   */
  rename(field: EditedField, to: EditedField): boolean {
    const last = field.segments.length - 1
    const from = field.segments[last]
    const name = to.segments[last]
    if (field.parent !== to.parent) return this.#moveTo(field, to)
    if (field.path.segments[last] === to.path.segments[last]) return this.has(field)
    if (typeof from !== 'object' || typeof name !== 'object') return this.#moveTo(field, to)
    this.#touch(field, to)
    if (!this.#find(field, true)) return false
    const { count, nameStart, nameEnd, start } = found
    // Without a slot, the value may contain escapes, so it is marked as special.
    const end = field.slot >= 0 ? this.#slots[field.slot * SLOT + 1]! : (found.end << 1) | 1
    const isReplaced = this.#findIn(name, this.#depth === 0 ? to.slot : -1)
    if (count > 1 || found.count > 1) {
      this.#unify(field)
      return this.rename(field, to)
    }
    if (isReplaced) {
      if (this.#splices.overlap(found.cutStart, found.cutEnd)) {
        this.#apply()
        return this.rename(field, to)
      }
      this.#splices.add(found.cutStart, found.cutEnd)
    }
    const textFrom = this.#splices.text.length
    this.#splices.text.add(name.json, 0, name.json.length)
    this.#splices.add(nameStart, nameEnd, textFrom)
    if (this.#depth > 0) return true
    if (field.slot >= 0) this.#slots[field.slot * SLOT] = 0
    if (to.slot >= 0) {
      this.#slots[to.slot * SLOT] = start
      this.#slots[to.slot * SLOT + 1] = end
    }
    return true
  }

  /** Whether the field exists after the changes so far. */
  has(field: EditedField): boolean {
    this.#touch(field)
    return this.#find(field)
  }

  #moveTo(field: EditedField, to: EditedField): boolean {
    this.#touch(field)
    if (!this.#find(field)) return false
    if (this.#splices.count > 0) {
      this.#apply()
      this.#find(field)
    }
    const value = Buffer.from(this.#bytes.subarray(found.start, found.end))
    const [bytes, start, end, isWritten] = [this.#bytes, this.#start, this.#end, this.#isWritten]
    const slots = this.#slots.slice()
    this.remove(field)
    if (this.setJson(to, value)) return true
    this.#splices.clear()
    this.#use(bytes, start, end)
    this.#slots.set(slots)
    this.#isWritten = isWritten
    // Writes again, because the texts of the batch may have moved.
    if (isWritten) this.#write()
    return false
  }

  /**
   * Prepares a change of one or two fields. If a pending change concerns the same top-level field, applies all pending
   * changes first.
   */
  #touch(field: EditedField, other = field): void {
    if (this.#end === 0) this.#read()
    if (field.slot < 0) field.slot = this.#wanted.names.indexOf(field.path.segments[0])
    if (other.slot < 0) other.slot = this.#wanted.names.indexOf(other.path.segments[0])
    if (this.#touched.includes(field.slot) || this.#touched.includes(other.slot)) this.#apply()
    this.#touched.push(field.slot, other.slot)
  }

  /** Finds a field in the JSON. `found` then describes the value or, if `isWhole`, the whole member. */
  #find({ segments, slot }: EditedField, isWhole = false): boolean {
    this.#depth = 0
    this.#parentStart = this.#start
    this.#parentEnd = this.#end
    if (isWhole || slot < 0) {
      if (!this.#findIn(segments[0]!, slot)) return false
    } else {
      found.start = this.#slots[slot * SLOT]!
      found.end = this.#slots[slot * SLOT + 1]! >> 1
      if (found.start === 0) return false
    }
    if (segments.length === 1) return true
    do {
      this.#depth++
      this.#parentStart = found.start
      this.#parentEnd = found.end
      if (!this.#findIn(segments[this.#depth]!)) return false
    } while (this.#depth < segments.length - 1)
    return true
  }

  /** Finds a member of the object or an item of the array that `#find` reached. `slot`: slot of a top-level field. */
  #findIn(segment: MemberName | number, slot = -1): boolean {
    const bytes = this.#bytes
    const start = this.#parentStart
    const end = this.#parentEnd
    if (typeof segment === 'number') return bytes[start] === OPEN_ARRAY && findItem(bytes, start, end, segment)
    if (bytes[start] !== OPEN_OBJECT) return false
    found.count = 0
    if (slot >= 0) {
      const from = this.#slots[slot * SLOT]!
      if (from === 0) return false
      const to = this.#slots[slot * SLOT + 1]!
      if (memberOf(bytes, start, end, segment, from, to >> 1, (to & 1) === 0)) return true
    }
    return findMember(bytes, start, end, segment)
  }

  /**
   * Finds where a field's value belongs, and adds the bytes before the value. Returns false if the field cannot be set.
   */
  #begin(field: EditedField): boolean {
    this.#touch(field)
    this.#braces = 0
    if (this.#find(field)) {
      this.#from = found.start
      this.#to = found.end
      this.#textFrom = this.#valueFrom = this.#splices.text.length
      return true
    }
    const { segments } = field
    if (this.#bytes[this.#parentStart] !== OPEN_OBJECT) return false
    for (let n = this.#depth; n < segments.length; n++) if (typeof segments[n] === 'number') return false
    this.#from = this.#to = this.#parentEnd - 1
    this.#textFrom = this.#splices.text.length
    const isFirst = this.#depth === 0 ? this.#isEmpty : isEmptyObject(this.#bytes, this.#parentStart, this.#parentEnd)
    if (!isFirst) this.#splices.text.addByte(COMMA)
    for (let n = this.#depth; n < segments.length; n++) {
      const { json } = segments[n] as MemberName
      if (n > this.#depth) this.#splices.text.addByte(OPEN_OBJECT)
      this.#splices.text.add(json, 0, json.length)
      this.#splices.text.addByte(COLON)
      if (n === 0) this.#valueFrom = this.#splices.text.length
    }
    if (this.#depth === 0) this.#isEmpty = false
    this.#braces = segments.length - 1 - this.#depth
    return true
  }

  #finish({ slot }: EditedField): true {
    const { text } = this.#splices
    for (let n = 0; n < this.#braces; n++) text.addByte(CLOSE_OBJECT)
    // Slots exist only for top-level fields, not for changes inside these fields.
    const isField = this.#depth === 0
    const special = isField && slot >= 0 ? this.#slots[slot * SLOT + 1]! & 1 : 0
    const valueTo = isField ? (text.length << 1) | special | (text.hasEscape(this.#valueFrom) ? 1 : 0) : 0
    this.#splices.add(this.#from, this.#to, this.#textFrom, isField ? slot : -1, this.#valueFrom, valueTo)
    return true
  }

  #read(): void {
    const json = this.#json
    json.read(this.#batch!, this.#i)
    this.#use(json.bytes, json.start, json.end)
    this.#size = json.end - json.start
    const length = this.#wanted.names.length * SLOT
    if (this.#slots.length !== length) this.#slots = new Int32Array(length)
    if (!json.copySlots(this.#batch!, this.#i, this.#slots)) this.#scan()
  }

  #scan(): void {
    scanObject(this.#bytes, this.#start, this.#end, this.#wanted, this.#slots.fill(0), 0)
  }

  #apply(): void {
    this.#touched.length = 0
    if (this.#splices.count > 0) this.#write()
  }

  /** Appends the event's JSON with the pending changes to the texts of its batch. */
  #write(): void {
    const batch = this.#batch!
    const texts = batch.textsToChange()
    const size = this.#end - this.#start + this.#splices.growth
    const at = texts.reserve(Math.max(size, this.#end - this.#start), batch.bytes)
    this.#splices.apply(this.#bytes, this.#start, this.#end, texts.bytes, at, this.#slots)
    texts.end(at + size)
    this.#splices.clear()
    this.#use(texts.bytes, at, at + size)
    this.#isWritten = true
  }

  /** Applies the pending changes. Then removes duplicate names from the object that contains the field. */
  #unify(field: EditedField): void {
    this.#apply()
    this.#find(field, true)
    const { text } = this.#splices
    addUnique(text, this.#bytes, this.#parentStart, this.#parentEnd)
    this.#splices.add(this.#parentStart, this.#parentEnd, 0)
    this.#write()
    this.#scan()
  }

  #use(bytes: Buffer, start: number, end: number): void {
    this.#bytes = bytes
    this.#start = start
    this.#end = end
    this.#isEmpty = isEmptyObject(bytes, start, end)
  }
}
