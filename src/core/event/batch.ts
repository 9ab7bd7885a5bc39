import { isAscii, isUtf8 } from 'node:buffer'
import { SLOT } from '../../lib/formats/json-scan.js'
import { CONTINUES, type Frame, LINE_END, PIECE } from '../../lib/lines/line-splitter.js'
import type { Ack } from './ack.js'
import { type Fields, LogEvent, lineFields } from './event.js'
import { DECODED, INVALID, MODIFIED, SCANNED } from './flags.js'
import type { Origin } from './origin.js'

/** What a batch costs beyond its bytes, so that many small ones are bounded too. */
const BATCH_OVERHEAD = 1024
const EVENT_OVERHEAD = 16

/**
 * Events that travel and are acknowledged together: ranges of one chunk, as columns. Nothing is allocated per event
 * until somebody asks for it as an object (`event(i)`). Its bytes stay valid until the batch is settled.
 *
 * Whoever holds a batch either passes it on or settles its ack. An event's size is that of its line as read, line end
 * included, whatever was changed since.
 */
export class EventBatch {
  readonly origin: Origin
  /** Wall clock, milliseconds. */
  readonly receivedAt: number
  readonly ack: Ack
  chunk: Buffer
  length: number
  /** Bytes of the lines and their line ends. */
  bytes: number
  starts: Int32Array
  ends: Int32Array
  flags: Uint8Array
  #events: (LogEvent | undefined)[] | undefined
  #slots: Int32Array | undefined
  /** Numbers per event in the slots. */
  readonly #stride: number
  #text: 'ascii' | 'utf8' | 'invalid' | undefined
  #remembers = false
  /** Of the events that were modified: what they were before. */
  #originals: Map<number, { readonly flags: number; readonly event: LogEvent | undefined }> | undefined

  constructor(frame: Frame, origin: Origin, receivedAt: number, ack: Ack) {
    this.origin = origin
    this.receivedAt = receivedAt
    this.ack = ack
    this.chunk = frame.chunk
    this.length = frame.length
    this.bytes = frame.bytes
    this.starts = frame.starts
    this.ends = frame.ends
    this.flags = frame.flags
    this.#stride = origin.wanted.names.length * SLOT
    if (frame.letGo) ack.letGo = frame.letGo
  }

  /** What the batch keeps in memory, for the budget of unacknowledged bytes. */
  get held(): number {
    return this.chunk.buffer.byteLength + this.length * EVENT_OVERHEAD + BATCH_OVERHEAD
  }

  /** The size of event `i`: its line and its line end. */
  size(i: number): number {
    return this.ends[i]! - this.starts[i]! + (this.flags[i]! & LINE_END)
  }

  /** Event `i` as an object, the same one each time. */
  event(i: number): LogEvent {
    this.#events ??= new Array(this.length)
    let event = this.#events[i]
    if (!event) {
      this.look(i)
      event = new LogEvent(this.origin, this.receivedAt, this.flags[i]!, this.chunk, this.starts[i]!, this.ends[i]!)
      this.#events[i] = event
    }
    return event
  }

  /** What event `i` says, for one look: unlike that of `event(i)` it is not kept as long as the batch. */
  fields(i: number): Fields {
    const event = this.#events?.[i]
    if (event) return event.fields
    const flags = this.look(i)
    if (this.isObject(i)) return this.event(i).fields
    return lineFields(this.origin, this.receivedAt, flags, this.chunk, this.starts[i]!, this.ends[i]!)
  }

  /** Replaces what event `i` says. */
  modify(i: number, fields: Fields): void {
    if (this.#remembers && !this.#originals?.has(i)) {
      this.#originals ??= new Map()
      this.#originals.set(i, { flags: this.flags[i]!, event: this.#events?.[i]?.clone() })
    }
    this.event(i).fields = fields
    this.flags[i]! |= MODIFIED
  }

  /** Makes sure that the flags SCANNED, DECODED and INVALID of event `i` are known, and returns its flags. */
  look(i: number): number {
    const flags = this.flags[i]!
    return flags & SCANNED ? flags : this.#scan(i)
  }

  #scan(i: number): number {
    this.#text ??= this.#textKind()
    let flags = this.flags[i]! | SCANNED
    const start = this.starts[i]!
    const end = this.ends[i]!
    if (this.#text === 'invalid' && !isUtf8(this.chunk.subarray(start, end))) flags |= INVALID
    const { codec, wanted } = this.origin
    if (codec.form !== 'message') {
      const slots = this.#slots ?? this.#rescan()
      const piece = flags & (PIECE | CONTINUES)
      const isWanted = piece === 0 || (piece === PIECE && codec.definition.decodesFirstPiece === true)
      if (isWanted && codec.scan(this.chunk, start, end, wanted, slots, i * this.#stride)) flags |= DECODED
    }
    this.flags[i] = flags
    return flags
  }

  /** Looks at every event; returns how many lines the codec of the origin could not decode. */
  scan(): number {
    if (this.origin.codec.form === 'message') return 0
    let undecoded = 0
    for (let i = 0; i < this.length; i++) if ((this.look(i) & DECODED) === 0) undecoded++
    return undecoded
  }

  /** Whether the line of event `i` is the event itself, to which nothing of its origin is added. */
  isObject(i: number): boolean {
    return (this.look(i) & DECODED) !== 0 && this.origin.codec.form === 'object'
  }

  /** Whether the line of event `i` has the field of this slot: its value does not come from the origin. */
  hasOwn(i: number, slot: number): boolean {
    return (this.look(i) & DECODED) !== 0 && this.slotStart(i, slot) !== 0
  }

  #textKind(): 'ascii' | 'utf8' | 'invalid' {
    if (this.length === 0) return 'ascii'
    const bytes = this.chunk.subarray(this.starts[0]!, this.ends[this.length - 1]!)
    return isAscii(bytes) ? 'ascii' : isUtf8(bytes) ? 'utf8' : 'invalid'
  }

  /** Whether every byte of the batch is ASCII: then text is decoded the cheapest way. */
  get ascii(): boolean {
    this.#text ??= this.#textKind()
    return this.#text === 'ascii'
  }

  /** The first number in `slot` of event `i`, 0 when the name is missing (see Codec.scan). Only after `look` said DECODED. */
  slotStart(i: number, slot: number): number {
    const slots = this.#slots ?? this.#rescan()
    return slots[i * this.#stride + slot * SLOT]!
  }

  /** The second one: where the value ends, shifted left by one; the lowest bit marks text that is not its bytes. */
  slotEnd(i: number, slot: number): number {
    return this.#slots![i * this.#stride + slot * SLOT + 1]!
  }

  /** Room for the slots; finds the wanted names of the lines that were decoded before the bytes moved. */
  #rescan(): Int32Array {
    const { codec, wanted } = this.origin
    const slots = new Int32Array(this.length * this.#stride)
    for (let i = 0; i < this.length; i++) {
      if ((this.flags[i]! & DECODED) === 0) continue
      codec.scan(this.chunk, this.starts[i]!, this.ends[i]!, wanted, slots, i * this.#stride)
    }
    this.#slots = slots
    return slots
  }

  /** Keeps, in place, the events whose index `keep` accepts; returns how many went. */
  retain(keep: (i: number) => boolean): number {
    const length = this.length
    let kept = 0
    let bytes = this.bytes
    for (let i = 0; i < length; i++) {
      if (!keep(i)) bytes -= this.size(i)
      else {
        if (kept !== i) this.#move(i, kept)
        kept++
      }
    }
    this.length = kept
    this.bytes = bytes
    if (this.#events) this.#events.length = kept
    return length - kept
  }

  /** Keeps, in place, the events for which `column` has 0: `count` events of so many bytes. */
  retainZeros(column: Uint8Array, count: number, bytes: number): void {
    let kept = 0
    for (let i = 0; kept < count; i++) {
      if (column[i] !== 0) continue
      if (kept !== i) this.#move(i, kept)
      kept++
    }
    this.length = count
    this.bytes = bytes
    if (this.#events) this.#events.length = count
  }

  #move(from: number, to: number): void {
    this.starts[to] = this.starts[from]!
    this.ends[to] = this.ends[from]!
    this.flags[to] = this.flags[from]!
    if (this.#events) this.#events[to] = this.#events[from]
    if (this.#slots) this.#slots.copyWithin(to * this.#stride, from * this.#stride, (from + 1) * this.#stride)
  }

  /** Another holder's copy of events [from, to): the bytes are shared, what one copy changes the other does not see. */
  fork(from = 0, to = this.length): EventBatch {
    this.ack.fork()
    const copy = this.#copy(from, to)
    copy.#slots = this.#slots?.slice(from * this.#stride, to * this.#stride)
    return copy
  }

  /** From now on the batch knows what `modify` changes, for `restore`. */
  remember(): void {
    this.#remembers = true
    this.#originals = undefined
  }

  /** The indices of what was modified since `remember`. */
  modified(): Iterable<number> {
    return this.#originals?.keys() ?? []
  }

  /** Takes back what was modified since `remember`. */
  restore(): void {
    for (const [i, { flags, event }] of this.#originals ?? []) {
      this.flags[i] = flags
      this.#events![i] = event
    }
    this.#originals = undefined
  }

  /** What events [from, to) are now. The copy is held by whoever holds this batch. */
  snapshot(from = 0, to = this.length): EventBatch {
    return this.#copy(from, to)
  }

  /** Event `i` is from now on what the only event of `other` is, which is a snapshot of it. */
  takeOver(other: EventBatch, i: number): void {
    const event = other.#events?.[0]
    if ((other.flags[0]! & MODIFIED) === 0 || !event) return
    this.#events ??= new Array(this.length)
    this.#events[i] = event
    this.flags[i] = other.flags[0]!
  }

  #copy(from: number, to: number): EventBatch {
    let bytes = this.bytes
    if (from !== 0 || to !== this.length) {
      bytes = 0
      for (let i = from; i < to; i++) bytes += this.size(i)
    }
    const frame: Frame = {
      chunk: this.chunk,
      length: to - from,
      starts: this.starts.slice(from, to),
      ends: this.ends.slice(from, to),
      flags: this.flags.slice(from, to),
      bytes,
    }
    const copy = new EventBatch(frame, this.origin, this.receivedAt, this.ack)
    copy.#text = this.#text
    copy.#events = this.#events?.slice(from, to).map(event => event?.clone())
    return copy
  }

  /** A batch of the events whose index `pick` accepts (undefined: none); this one stays as it is. */
  pick(pick: (i: number) => boolean): EventBatch | undefined {
    const copy = this.fork()
    try {
      copy.retain(pick)
    } catch (error) {
      // What becomes of the events is decided by who holds this batch.
      copy.ack.settle('delivered')
      throw error
    }
    if (copy.length > 0) return copy
    copy.ack.settle('delivered')
    return undefined
  }

  /** Copies the bytes out when the events are a small part of a chunk that nobody else holds, and lets go of it. */
  compact(): void {
    const chunk = this.chunk.buffer.byteLength
    if (chunk < 4096 || this.bytes * 4 > chunk || !this.ack.sole) return
    const compacted = Buffer.allocUnsafeSlow(this.bytes)
    let at = 0
    for (let i = 0; i < this.length; i++) {
      const start = this.starts[i]!
      const size = this.size(i)
      this.chunk.copy(compacted, at, start, start + size)
      this.ends[i] = at + this.ends[i]! - start
      this.starts[i] = at
      this.#events?.[i]?.move(compacted, at)
      at += size
    }
    this.starts = this.starts.slice(0, this.length)
    this.ends = this.ends.slice(0, this.length)
    this.flags = this.flags.slice(0, this.length)
    this.#slots = undefined
    this.chunk = compacted
    this.ack.shrink(chunk - compacted.length)
  }
}
