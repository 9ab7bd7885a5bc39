import { SLOT, scanObject, type WantedNames } from '../../lib/formats/json-scan.js'
import type { ByteSink } from '../../lib/formats/json-string.js'
import type { ScannedLines } from '../../lib/kernel/line-memory.js'
import { isInChunkMemory } from '../../lib/lines/chunk-memory.js'
import { areaFor, numbersFor } from '../../lib/lines/chunk-pool.js'
import { selectedRows } from './columns.js'

/**
 * The JSON texts of a batch's changed events. Columns contain their positions, as for lines. The bytes are in an
 * append-only arena. Copies of the batch share the arena, but a copy does not see texts that another copy adds later.
 */

const LF = 0x0a
/** The first number of a text's slots, if the text was not scanned after its last change. */
const UNSCANNED = -1
const LEAST_ARENA = 4096

class Arena {
  readonly bytes: Buffer
  used = 0

  constructor(bytes: Buffer) {
    this.bytes = bytes
  }
}

export class ChangedTexts {
  /** The batch's chunk. The texts may use memory that is freed with this chunk. */
  #chunk: Buffer
  readonly #wanted: WantedNames
  #stride: number
  /** The version of `#wanted` to which `#slots` belongs. */
  #version: number
  #arena: Arena
  /** Text `i` is bytes[starts[i], ends[i]), followed by a line feed. `ends[i]` is 0 if event `i` has no text. */
  starts: Int32Array
  ends: Int32Array
  /** Like the slots of a batch (see SLOT). */
  #slots: Int32Array

  constructor(
    chunk: Buffer,
    wanted: WantedNames,
    starts: Int32Array,
    ends: Int32Array,
    slots: Int32Array,
    arena: Arena,
  ) {
    this.#chunk = chunk
    this.#wanted = wanted
    this.#stride = wanted.names.length * SLOT
    this.#version = wanted.version
    this.starts = starts
    this.ends = ends
    this.#slots = slots
    this.#arena = arena
  }

  static of(length: number, chunk: Buffer, wanted: WantedNames): ChangedTexts {
    const [starts, ends] = [numbersFor(chunk, length), numbersFor(chunk, length).fill(0)]
    const slots = numbersFor(chunk, length * wanted.names.length * SLOT)
    return new ChangedTexts(chunk, wanted, starts, ends, slots, new Arena(Buffer.alloc(0)))
  }

  get bytes(): Buffer {
    return this.#arena.bytes
  }

  has(i: number): boolean {
    return this.ends[i] !== 0
  }

  text(i: number): Buffer {
    return this.bytes.subarray(this.starts[i], this.ends[i])
  }

  /**
   * Reserves `size` bytes and one byte for a line feed. Returns the position of these bytes in `bytes`. If the arena is
   * full, the texts move to a new arena that has at least twice the size and room for `more` bytes. Without `more`,
   * texts would move many times if they were much longer than their lines.
   */
  reserve(size: number, more: number): number {
    const needed = size + 1
    if (this.bytes.length - this.#arena.used < needed) this.#moveAll(needed + Math.max(more, needed, this.#arena.used))
    return this.#arena.used
  }

  /** Returns the memory after the texts; undefined if the WebAssembly kernel cannot write `size` bytes there. */
  room(size: number): Buffer | undefined {
    if (this.bytes.length === 0) this.#arena = new Arena(areaFor(this.#chunk, size) ?? this.bytes)
    const room = this.bytes.subarray(this.#arena.used)
    return room.length >= size && isInChunkMemory(room) ? room : undefined
  }

  /** Sets the text of event `i` to the reserved bytes [start, end). `slots`: the slots of the text, if known. */
  set(i: number, start: number, end: number, slots?: Int32Array): void {
    this.starts[i] = start
    this.ends[i] = end
    if (this.#stride === 0) return
    const first = i * this.#stride
    if (slots?.length === this.#stride) for (let n = 0; n < slots.length; n++) this.#slots[first + n] = slots[n]!
    else this.#slots[first] = UNSCANNED
  }

  /** Copies the slots of text `i`. Returns false if `to` has another number of slots. */
  copySlots(i: number, to: Int32Array): boolean {
    if (to.length !== this.#stride) return false
    if (this.#stride > 0) this.slotStart(i, 0)
    for (let n = 0, first = i * this.#stride; n < to.length; n++) to[n] = this.#slots[first + n]!
    return true
  }

  /** Ends the text that was written at the position from `reserve`. `end`: the position after the text. */
  end(end: number): void {
    this.bytes[end] = LF
    this.#arena.used = end + 1
  }

  clear(i: number): void {
    this.ends[i] = 0
  }

  move(from: number, to: number): void {
    this.starts[to] = this.starts[from]!
    this.ends[to] = this.ends[from]!
    this.#slots.copyWithin(to * this.#stride, from * this.#stride, (from + 1) * this.#stride)
  }

  /** Returns an independent copy of the texts of events [from, to). */
  slice(from: number, to: number): ChangedTexts {
    this.renew()
    const slots = this.#slots.slice(from * this.#stride, to * this.#stride)
    const [starts, ends] = [this.starts.slice(from, to), this.ends.slice(from, to)]
    return new ChangedTexts(this.#chunk, this.#wanted, starts, ends, slots, this.#arena)
  }

  select(indices: readonly number[]): ChangedTexts {
    this.renew()
    const [starts, ends] = [selectedRows(this.starts, 1, indices), selectedRows(this.ends, 1, indices)]
    const slots = selectedRows(this.#slots, this.#stride, indices)
    return new ChangedTexts(this.#chunk, this.#wanted, starts, ends, slots, this.#arena)
  }

  truncate(length: number): void {
    this.ends.fill(0, length)
  }

  /** If the texts use a small part of the arena, moves them to a smaller arena. */
  compact(): void {
    const arena = this.bytes.length
    if (arena > LEAST_ARENA && this.#size() * 4 < arena) this.#moveAll(0)
  }

  /** Call this when the batch moves to another chunk, because memory of the old chunk may then be reused. */
  moveTo(chunk: Buffer): void {
    this.#chunk = chunk
    this.starts = this.starts.slice()
    this.ends = this.ends.slice()
    this.#slots = this.#slots.slice()
    if (isInChunkMemory(this.bytes)) this.#moveAll(0)
  }

  #size(): number {
    let size = 0
    for (let i = 0; i < this.ends.length; i++) if (this.ends[i] !== 0) size += this.ends[i]! - this.starts[i]! + 1
    return size
  }

  #moveAll(more: number): void {
    const old = this.bytes
    const size = this.#size() + more
    // Unlike `alloc`, `allocUnsafeSlow` does not touch the memory before the memory is used.
    const arena = new Arena(areaFor(this.#chunk, size) ?? Buffer.allocUnsafeSlow(size))
    for (let i = 0; i < this.ends.length; i++) {
      if (this.ends[i] === 0) continue
      const start = arena.used
      const by = start - this.starts[i]!
      arena.used += old.copy(arena.bytes, start, this.starts[i], this.ends[i]! + 1)
      this.starts[i]! += by
      this.ends[i]! += by
      this.#shift(i, by)
    }
    this.#arena = arena
  }

  #shift(i: number, by: number): void {
    const first = i * this.#stride
    if (this.#slots[first] === UNSCANNED) return
    for (let at = first; at < first + this.#stride; at += SLOT) {
      if (this.#slots[at] === 0) continue
      this.#slots[at]! += by
      this.#slots[at + 1]! += by << 1
    }
  }

  /**
   * Adds text `i` to `to`, and then the texts directly after it in the arena, each with its line feed. Returns the
   * index of the first event that was not added.
   */
  addLines(i: number, length: number, to: ByteSink): number {
    const start = this.starts[i]!
    let end = start
    while (i < length && this.starts[i] === end && this.ends[i] !== 0) end = this.ends[i++]! + 1
    to.add(this.bytes, start, end)
    return i
  }

  /** Returns the first number in `slot` of text `i`; 0: the name is missing. */
  slotStart(i: number, slot: number): number {
    const first = i * this.#stride
    if (this.#slots[first] === UNSCANNED) this.#scan(i)
    return this.#slots[i * this.#stride + slot * SLOT]!
  }

  /** Returns the second number in `slot` of text `i`. Call `slotStart` first. */
  slotEnd(i: number, slot: number): number {
    return this.#slots[i * this.#stride + slot * SLOT + 1]!
  }

  /** Scans text `i`. Returns whether the text is a JSON object. */
  scan(i: number): boolean {
    return this.#scan(i)
  }

  /** Returns the texts of a batch as lines with their slots; undefined: at least half of its events have no text. */
  lines({ length, flags }: { readonly length: number; readonly flags: Uint8Array }): ScannedLines | undefined {
    this.renew()
    const { starts, ends, bytes: chunk } = this
    const [slots, stride] = [this.#slots, this.#stride]
    let count = 0
    for (let i = 0; i < length; i++) {
      if (ends[i] === 0) continue
      count++
      if (slots[i * stride] === UNSCANNED) this.#scan(i)
    }
    return count * 2 > length ? { chunk, length, starts, ends, flags, slots, stride } : undefined
  }

  /** Prepares the texts for readers that were created after the last scan. */
  renew(): void {
    const { names, version } = this.#wanted
    if (version === this.#version) return
    const stride = names.length * SLOT
    this.#stride = stride
    this.#version = version
    this.#slots = new Int32Array(this.starts.length * stride)
    for (let i = 0; i < this.starts.length; i++) this.#slots[i * stride] = UNSCANNED
  }

  #scan(i: number): boolean {
    this.renew()
    const first = i * this.#stride
    this.#slots.fill(0, first, first + this.#stride)
    return scanObject(this.bytes, this.starts[i]!, this.ends[i]!, this.#wanted, this.#slots, first)
  }
}
