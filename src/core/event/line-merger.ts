import { SLOT, sawEscape, slotOf, stringEnd, type WantedNames } from '../../lib/formats/json-scan.js'
import { theKernel } from '../../lib/kernel/kernel.js'
import { CONTINUES, PIECE } from '../../lib/lines/line-splitter.js'
import { type EventFrame, FieldLines, type LineFormat } from '../codecs/field-lines.js'
import type { EventBatch } from './batch.js'
import { INVALID, MODIFIED } from './flags.js'
import { OriginTail, ownBits } from './origin-tail.js'

const OPEN = Buffer.from('{')
const QUOTE = Buffer.from('"')
const OPEN_MESSAGE = Buffer.from('{"message":"')
const END = Buffer.from('}\n')
/** Extra bytes for events that are merged one by one. */
const ROOM = 16 * 1024
/** Flags of lines whose text is not the unchanged, whole message. */
const UNUSUAL = PIECE | CONTINUES | INVALID | MODIFIED

/**
 * Reads the fields of each line and merges them into the event whose message is the whole line. The result is the same
 * as with EventMerger, but LineMerger handles many events in one call. It skips lines whose form is rare.
 */
export class LineMerger {
  readonly #wanted: WantedNames
  readonly #format: LineFormat
  readonly #keepsMessage: boolean
  readonly #tail = new OriginTail()
  #merged = new Uint8Array(0)
  #slots = new Int32Array(0)

  constructor(wanted: WantedNames, format: LineFormat, keepsMessage: boolean) {
    this.#wanted = wanted
    this.#format = format
    this.#keepsMessage = keepsMessage
  }

  /** A column with a 1 for each merged event, valid until the next call; undefined if the batch is not handled. */
  merge(batch: EventBatch): Uint8Array | undefined {
    const kernel = theKernel()?.part(FieldLines)
    if (batch.origin.codec.form !== 'message' || !kernel?.isWorthwhile(batch)) return undefined
    for (let i = 0; i < batch.length; i++) batch.look(i)
    const wanted = this.#wanted
    if (!kernel.setFrame(this.#frame(batch), wanted)) return undefined
    if (this.#merged.length < batch.length) this.#merged = new Uint8Array(batch.length)
    this.#merged.fill(0, 0, batch.length)
    const stride = wanted.names.length * SLOT
    if (this.#slots.length !== stride) this.#slots = new Int32Array(stride)
    for (let from = 0; from < batch.length; ) {
      // Events are longer than their lines, so this is the minimum. A small batch gets no area.
      const room = batch.textsToChange().room(batch.bytes)
      const until = kernel.write(this.#format, batch, from, UNUSUAL, 0, wanted, room)
      this.#takeGroup(batch, from, until, kernel, room)
      from = until
    }
    return this.#merged
  }

  /** Adds the texts of events [from, until) except skipped ones. If `room` is given, the texts are already there. */
  #takeGroup(batch: EventBatch, from: number, until: number, kernel: FieldLines, room: Buffer | undefined): void {
    const { output, starts, ends } = kernel
    const count = until - from
    let size = 0
    for (let n = count; n > 0 && size === 0; n--) size = ends[n - 1]!
    if (size === 0) return
    const texts = batch.textsToChange()
    let at = room ? room.byteOffset - texts.bytes.byteOffset : 0
    if (!room) {
      at = texts.reserve(size - 1, Math.ceil((size / count) * (batch.length - until)) + ROOM)
      output.copy(texts.bytes, at, 0, size)
    }
    texts.end(at + size - 1)
    for (let n = 0; n < count; n++) {
      if (ends[n] === 0) continue
      batch.setText(from + n, at + starts[n]!, at + ends[n]! - 1, this.#slotsOf(kernel.slots, n, at))
      this.#merged[from + n] = 1
    }
  }

  /** Returns the slots of event `n` with all positions moved by `by`. `all`: the slots of all events of the group. */
  #slotsOf(all: Int32Array, n: number, by: number): Int32Array {
    const slots = this.#slots
    for (let k = 0, first = n * slots.length; k < slots.length; k += SLOT) {
      const start = all[first + k]!
      slots[k] = start === 0 ? 0 : start + by
      slots[k + 1] = start === 0 ? 0 : all[first + k + 1]! + (by << 1)
    }
    return slots
  }

  #frame(batch: EventBatch): EventFrame {
    const { names } = this.#format
    const hasLine = this.#keepsMessage && !names.includes('message')
    // Omits the closing brace. If no member precedes the tail, also omits the tail's first comma.
    const tail = this.#tail.of(batch, 0, ownBits(names)).subarray(0, -1)
    const middle = hasLine ? Buffer.concat([QUOTE, tail]) : tail.subarray(1)
    const middleSlots = this.#slotsIn(middle, hasLine ? 1 : -1)
    const head = hasLine ? OPEN_MESSAGE : OPEN
    return { head, hasLine, middle, end: END, middleSlots }
  }

  /**
   * Finds the string members of `middle` that have slots. `p`: the position of the comma before the first member.
   * Returns three numbers for each found member: its slot, and the two numbers in that slot.
   */
  #slotsIn(middle: Buffer, p: number): Int32Array {
    const found: number[] = []
    while (p < middle.length - 1) {
      const nameEnd = stringEnd(middle, p + 2)
      const slot = slotOf(middle, p + 2, nameEnd, this.#wanted)
      const start = nameEnd + 2
      p = stringEnd(middle, start + 1) + 1
      if (slot >= 0) found.push(slot, start, (p << 1) | (sawEscape ? 1 : 0))
    }
    return Int32Array.from(found)
  }
}
