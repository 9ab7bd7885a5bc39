import { isUtf8 } from 'node:buffer'
import { SLOT } from '../../lib/formats/json-scan.js'
import { parseExact } from '../../lib/formats/normal-json.js'
import { memoryOf, numbersFor } from '../../lib/lines/chunk-pool.js'
import { CONTINUES, type Frame, LINE_END, PIECE } from '../../lib/lines/line-splitter.js'
import type { Ack } from './ack.js'
import type { Behind } from './behind.js'
import { ChangedTexts } from './changed-texts.js'
import { areUtf8, columnOf, compacted, selectedRows, sizeOfLines } from './columns.js'
import { lineFields, madeJson } from './event.js'
import type { Fields } from './event-fields.js'
import { DECODED, INVALID, MODIFIED, SCANNED } from './flags.js'
import type { Origin } from './origin.js'
import type { ReadFrom, SentOffsets } from './sent-offsets.js'
import { SharedEncodings } from './shared-encodings.js'

/** Fixed cost of a batch in bytes, which limits the number of small batches within a budget. */
const BATCH_OVERHEAD = 1024
const EVENT_OVERHEAD = 16

/**
 * Events that travel together and are acknowledged together. The events are not objects, but ranges of one chunk,
 * stored as columns; `fields(i)` decodes a single event on demand. The bytes stay valid until the batch is settled. A
 * holder of the batch either passes the batch on or settles its ack. The size of an event is the size of its line and
 * line end, even after the event was modified.
 */
export class EventBatch {
  readonly origin: Origin
  /** Wall clock, in milliseconds. */
  readonly receivedAt: number
  readonly ack: Ack
  /** Whether the source read the batch to catch up after a start or a stall. Such events arrive all at once. */
  readonly isBacklog: boolean
  /** The period in which the source was behind when it sent the batch. Undefined: it was not, or since when is unknown. */
  behind: Behind | undefined
  readonly unreadable: number
  /** The positions of the events in the batch as the source sent it; undefined: unknown. */
  sentOffsets: SentOffsets | undefined
  /** The places of the events, if they differ from the places in `sentOffsets`. */
  places: SentOffsets | undefined
  /**
   * The position of the batch in the input, if the lines have the same distances in the input as in the chunk. The
   * source sets `readFrom` before it sends the batch.
   */
  readFrom: ReadFrom | undefined
  /** What the unchanged copies of the batch share; undefined if only one reader holds the batch, or it was changed. */
  shared: SharedEncodings | undefined
  sharedFrom = 0
  chunk: Buffer
  length: number
  /** Size of the lines with their line ends. */
  bytes: number
  starts: Int32Array
  ends: Int32Array
  flags: Uint8Array
  /** Whether the events are consecutive, unchanged lines, each with a line end, so they are one range of the chunk. */
  isRun: boolean
  #slots: Int32Array | undefined
  /** How many numbers `#slots` has per event. */
  #stride = 0
  /** The version of `origin.wanted` to which `#slots` belongs. */
  #version = -1
  #isUtf8: boolean | undefined
  #texts: ChangedTexts | undefined
  #remembers = false
  /** Whether other batches may share the columns of starts and ends. Shared columns must not change. */
  #isShared = true
  /** The state that all events had when `remember` was called. Copied before the first change. */
  #before: { readonly flags: Uint8Array; readonly texts: ChangedTexts | undefined } | undefined

  constructor(frame: Frame, origin: Origin, receivedAt: number, ack: Ack, isBacklog = false) {
    this.origin = origin
    this.receivedAt = receivedAt
    this.ack = ack
    this.isBacklog = isBacklog
    this.unreadable = frame.unreadable ?? 0
    this.chunk = frame.chunk
    this.length = frame.length
    this.bytes = frame.bytes
    this.starts = frame.starts
    this.ends = frame.ends
    this.flags = frame.flags
    this.isRun = frame.isRun === true
    if (frame.release) ack.release = frame.release
  }

  /** Bytes of memory that the batch holds, for the budget of unacknowledged bytes. */
  get held(): number {
    return memoryOf(this.chunk) + this.length * EVENT_OVERHEAD + BATCH_OVERHEAD
  }

  /** Size of the part of the chunk that contains the events. */
  get span(): number {
    const last = this.length - 1
    return this.starts[last]! + this.size(last) - this.starts[0]!
  }

  /** Unique id of the input from which the events were read: 16 hexadecimal digits. */
  get reading(): string {
    return (this.places ?? this.sentOffsets)?.reading ?? ''
  }

  /** Returns a number for event `i` that is unique within the reading. An event that is sent again keeps its number. */
  place(i: number): number {
    return (this.places ?? this.sentOffsets)?.place(this.starts, i) ?? 0
  }

  /** Returns the size of event `i`: its line and line end. */
  size(i: number): number {
    return this.ends[i]! - this.starts[i]! + (this.flags[i]! & LINE_END)
  }

  /** Returns the line of event `i` as read, without its line end. */
  line(i: number): Buffer {
    return this.chunk.subarray(this.starts[i], this.ends[i])
  }

  /** Decodes the fields of event `i` on each call. If `isExact`, integers that a double would change are bigints. */
  fields(i: number, isExact = false): Fields {
    if (this.#texts?.has(i)) return (isExact ? parseExact : JSON.parse)(this.#texts.text(i).toString()) as Fields
    return lineFields(this.origin, this.receivedAt, this.look(i), this.chunk, this.starts[i]!, this.ends[i]!, isExact)
  }

  /** Replaces the fields of event `i`; throws if they cannot be written as JSON. See EventEditor for single fields. */
  modify(i: number, fields: Fields): void {
    this.changeTo(i, Buffer.from(madeJson(fields)))
  }

  get texts(): ChangedTexts | undefined {
    return this.#texts
  }

  /** Returns `texts`, and creates it if necessary. Write the JSON of an event to `texts`, then call `setText`. */
  textsToChange(): ChangedTexts {
    this.isRun = false
    this.shared = undefined
    if (this.#remembers) {
      this.#before ??= { flags: this.flags.slice(0, this.length), texts: this.#texts?.slice(0, this.length) }
    }
    this.#texts ??= ChangedTexts.of(this.length, this.chunk, this.origin.wanted)
    return this.#texts
  }

  /** Replaces event `i` by the JSON object [start, end) of `texts`. `slots`: the slots of that object, if known. */
  setText(i: number, start: number, end: number, slots?: Int32Array): void {
    this.textsToChange().set(i, start, end, slots)
    this.flags[i]! |= MODIFIED
  }

  /** Replaces event `i` by a copy of a JSON object. `more`: the number of bytes that other events will probably add. */
  changeTo(i: number, json: Buffer, more = 0): void {
    const texts = this.textsToChange()
    const at = texts.reserve(json.length, more)
    json.copy(texts.bytes, at)
    texts.end(at + json.length)
    this.setText(i, at, at + json.length)
  }

  /** Scans event `i` if necessary. The scan sets SCANNED, DECODED and INVALID. Returns the flags of the event. */
  look(i: number): number {
    const flags = this.flags[i]!
    return flags & SCANNED ? flags : this.#scan(i)
  }

  #scan(i: number): number {
    this.#isUtf8 ??= areUtf8(this)
    const { codec, wanted } = this.origin
    if (codec.form !== 'message' && !this.#hasSlots) {
      this.#rescan()
      if (this.flags[i]! & SCANNED) return this.flags[i]!
    }
    let flags = this.flags[i]! | SCANNED
    const start = this.starts[i]!
    const end = this.ends[i]!
    if (!this.#isUtf8 && !isUtf8(this.chunk.subarray(start, end))) flags |= INVALID
    if (codec.form !== 'message') {
      const piece = flags & (PIECE | CONTINUES)
      const isWanted = piece === 0 || codec.decodesPiece(piece === PIECE)
      if (isWanted && codec.scan(this.chunk, start, end, wanted, this.#slots!, i * this.#stride)) flags |= DECODED
    }
    this.flags[i] = flags
    return flags
  }

  /** If a processor reads fields, scans every event. Returns the number of lines that are known to be undecodable. */
  scan(): number {
    const { codec, wanted } = this.origin
    if (codec.form === 'message' || wanted.isUnused) return this.unreadable
    const { flags, length } = this
    // A local copy, because V8 would look up an imported number for each event.
    const [scanned, decoded] = [SCANNED | 0, DECODED | 0]
    let undecoded = 0
    for (let i = 0; i < length; i++) if (((flags[i]! & scanned ? flags[i]! : this.look(i)) & decoded) === 0) undecoded++
    return undecoded
  }

  /** Whether the line of event `i` is already the whole event, without fields from its origin. */
  isObject(i: number): boolean {
    return (this.look(i) & DECODED) !== 0 && this.origin.codec.form === 'object'
  }

  /** Whether the line of event `i` contains the field of this slot. If not, the value comes from the origin. */
  hasOwn(i: number, slot: number): boolean {
    return (this.look(i) & DECODED) !== 0 && this.slotStart(i, slot) !== 0
  }

  /** The first number in `slot` of event `i`, which must be DECODED; 0: the name is missing (see Codec.scan). */
  slotStart(i: number, slot: number): number {
    return (this.#slots ?? this.#rescan())[i * this.#stride + slot * SLOT]!
  }

  /**
   * Returns the second number in `slot`: the value's end, shifted left by one. The lowest bit marks a special value.
   */
  slotEnd(i: number, slot: number): number {
    return this.#slots![i * this.#stride + slot * SLOT + 1]!
  }

  /** The slots of all lines, `stride` numbers for each. At least one event must be DECODED. */
  get slots(): Int32Array {
    return this.#slots ?? this.#rescan()
  }

  get stride(): number {
    return this.#slots ? this.#stride : this.origin.wanted.names.length * SLOT
  }

  get #hasSlots(): boolean {
    return this.#slots !== undefined && this.#version === this.origin.wanted.version
  }

  /** Prepares the batch for readers that were created after the batch was scanned. */
  renew(): void {
    if (!this.#hasSlots) this.#slots = undefined
    this.#texts?.renew()
  }

  /**
   * Allocates the slots. If the codec supports it, the codec scans all lines in one call. Remaining lines that are
   * already DECODED (before a move of the bytes, for example) are scanned one by one.
   */
  #rescan(): Int32Array {
    const { codec, wanted } = this.origin
    this.#stride = wanted.names.length * SLOT
    this.#version = wanted.version
    const slots = numbersFor(this.chunk, this.length * this.#stride).fill(0)
    this.#slots = slots
    this.#isUtf8 ??= areUtf8(this)
    const left = this.#isUtf8 ? codec.scanLines?.(this, wanted, slots) : undefined
    if (left === 0) return slots
    const done = left === undefined ? 0 : SCANNED
    for (let i = 0; i < this.length; i++) {
      const flags = this.flags[i]!
      if ((flags & DECODED) === 0 || (flags & done) !== 0) continue
      codec.scan(this.chunk, this.starts[i]!, this.ends[i]!, wanted, slots, i * this.#stride)
      this.flags[i] = flags | SCANNED
    }
    return slots
  }

  /** Removes from this batch the events that `keep` does not accept. Returns the number of removed events. */
  retain(keep: (i: number) => boolean): number {
    const column = new Uint8Array(this.length)
    let count = this.length
    let bytes = this.bytes
    for (let i = 0; i < column.length; i++) {
      if (keep(i)) continue
      column[i] = 1
      count--
      bytes -= this.size(i)
    }
    this.retainZeros(column, count, bytes)
    return column.length - count
  }

  /** Keeps in the batch only events with a 0 in `column`. `count` and `bytes`: their number and total size. */
  retainZeros(column: Uint8Array, count: number, bytes: number): void {
    const { starts, ends } = this
    this.shared = undefined
    if (this.#isShared) {
      this.#isShared = false
      this.starts = columnOf(this.chunk, starts, count)
      this.ends = columnOf(this.chunk, ends, count)
    }
    for (let i = 0, kept = 0; kept < count; i++) {
      if (column[i] === 0) this.#move(i, kept++, starts, ends)
    }
    this.isRun &&= count === this.length
    this.length = count
    this.bytes = bytes
    this.#texts?.truncate(count)
  }

  /** `starts` and `ends`: the columns before any move. */
  #move(from: number, to: number, starts: Int32Array, ends: Int32Array): void {
    if (from === to) return
    this.starts[to] = starts[from]!
    this.ends[to] = ends[from]!
    this.flags[to] = this.flags[from]!
    this.sentOffsets?.move(from, to)
    this.places?.move(from, to)
    this.#texts?.move(from, to)
    if (this.#slots) this.#slots.copyWithin(to * this.#stride, from * this.#stride, (from + 1) * this.#stride)
  }

  /** Returns a batch for each of `count` holders. As long as they do not change it, they share its encodings. */
  forks(count: number): EventBatch[] {
    this.shared ??= new SharedEncodings()
    return Array.from({ length: count }, (_, i) => (i === 0 ? this : this.fork()))
  }

  /** Copies events [from, to) for another holder. Both batches share the bytes, but not later modifications. */
  fork(from = 0, to = this.length): EventBatch {
    this.ack.fork()
    const copy = this.#copy(from, to)
    copy.#slots = this.#slots?.slice(from * this.#stride, to * this.#stride)
    copy.#stride = this.#stride
    copy.#version = this.#version
    return copy
  }

  remember(): void {
    this.#remembers = true
    this.#before = undefined
  }

  /** Undoes the modifications since `remember`. */
  restore(): void {
    for (let i = 0; i < this.length; i++) this.restoreEvent(i)
  }

  restoreEvent(i: number): void {
    const before = this.#before
    if (before?.texts?.has(i)) this.changeTo(i, before.texts.text(i))
    else if (before) this.#texts?.clear(i)
    if (before) this.flags[i] = (this.flags[i]! & ~MODIFIED) | (before.flags[i]! & MODIFIED)
  }

  /**
   * Returns a copy of events [from, to) in their current state. The copy does not add a holder to the acknowledgement.
   */
  snapshot(from = 0, to = this.length): EventBatch {
    return this.#copy(from, to)
  }

  /** Applies to event `i` the change that was made in `other`, which is a snapshot of this event. */
  takeOver(other: EventBatch, i: number): void {
    if (other.#texts?.has(0)) this.changeTo(i, other.#texts.text(0))
  }

  #copy(from: number, to: number): EventBatch {
    this.#isShared = true
    const frame: Frame = {
      chunk: this.chunk,
      length: to - from,
      starts: this.starts.subarray(from, to),
      ends: this.ends.subarray(from, to),
      flags: this.flags.slice(from, to),
      bytes: sizeOfLines(this, from, to),
      isRun: this.isRun,
    }
    const copy = new EventBatch(frame, this.origin, this.receivedAt, this.ack, this.isBacklog)
    copy.behind = this.behind
    copy.sentOffsets = this.sentOffsets?.slice(from, to)
    copy.places = this.places?.slice(from, to)
    copy.shared = this.shared
    copy.sharedFrom = this.sharedFrom + from
    copy.#isUtf8 = this.#isUtf8
    copy.#texts = this.#texts?.slice(from, to)
    return copy
  }

  /** Returns a batch of the events that `pick` accepts; undefined: it accepts no event. This batch stays unchanged. */
  pick(pick: (i: number) => boolean): EventBatch | undefined {
    const indices: number[] = []
    for (let i = 0; i < this.length; i++) if (pick(i)) indices.push(i)
    if (indices.length === 0) return undefined
    return indices.length === this.length ? this.fork() : this.select(indices)
  }

  /** Copies the events at these ascending indices for another holder. The copy uses memory only for these events. */
  select(indices: readonly number[]): EventBatch {
    this.ack.fork()
    const { chunk } = this
    const { length } = indices
    const [starts, ends] = [numbersFor(chunk, length), numbersFor(chunk, length)]
    const flags = new Uint8Array(length)
    let bytes = 0
    for (let to = 0; to < length; to++) {
      const from = indices[to]!
      starts[to] = this.starts[from]!
      ends[to] = this.ends[from]!
      flags[to] = this.flags[from]!
      bytes += this.size(from)
    }
    const frame: Frame = { chunk, length, starts, ends, flags, bytes }
    const copy = new EventBatch(frame, this.origin, this.receivedAt, this.ack, this.isBacklog)
    copy.behind = this.behind
    copy.sentOffsets = this.sentOffsets?.select(indices)
    copy.places = this.places?.select(indices)
    copy.#isUtf8 = this.#isUtf8
    copy.#texts = this.#texts?.select(indices)
    copy.#stride = this.#stride
    copy.#version = this.#version
    copy.#slots = this.#slots && selectedRows(this.#slots, this.#stride, indices)
    return copy
  }

  /** Settles the events from index `from` on as `errored`, so that they are read again. */
  giveBack(from = 0): void {
    const { sentOffsets, starts, length } = this
    const last = length - 1
    if (sentOffsets)
      this.ack.settle('errored', sentOffsets.before(starts, from), sentOffsets.before(starts, last) + this.size(last))
    else this.ack.settle('errored')
  }

  /**
   * If the events use only a small part of the chunk and the batch has only one holder, copies the events and releases
   * the chunk.
   */
  compact(): void {
    EventBatch.compactAll([this])
  }

  /** Does the same for batches with the same ack, if nobody else holds it. */
  static compactAll(batches: readonly EventBatch[]): void {
    const [{ ack, chunk }] = batches as [EventBatch]
    let memory = memoryOf(chunk)
    const bytes = batches.reduce((sum, batch) => sum + batch.bytes, 0)
    if (memory < 4096 || bytes * 4 > memory || !ack.isHeldBy(batches.length)) return
    for (const batch of batches) {
      const { chunk, starts, ends } = compacted(batch)
      batch.move(chunk, starts, ends)
      batch.#texts?.compact()
      memory -= chunk.length
    }
    ack.shrink(memory)
  }

  /** Moves the lines to another chunk. The lines with a 1 in `changed` will be scanned again. */
  move(chunk: Buffer, starts: Int32Array, ends: Int32Array, changed?: Uint8Array): void {
    this.isRun = false
    this.shared = undefined
    this.flags = this.flags.slice(0, this.length)
    if (changed) {
      for (let i = 0; i < this.length; i++) if (changed[i]) this.flags[i]! &= ~(SCANNED | DECODED | INVALID)
      this.#isUtf8 = undefined
    }
    this.#slots = undefined
    this.sentOffsets = this.sentOffsets?.kept(this.starts, this.length)
    this.places = this.places?.kept(this.starts, this.length)
    this.chunk = chunk
    this.starts = starts
    this.ends = ends
    this.#texts?.moveTo(chunk)
  }
}
