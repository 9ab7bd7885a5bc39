import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { SLOT } from '../../lib/formats/json-scan.js'
import { writeBytes } from '../../lib/formats/json-string.js'

/** Pending changes of a text. Each change replaces a range of the text by other bytes. Ranges do not overlap. */
export class Splices {
  count = 0
  readonly text = new GrowingBytes()
  /** The ranges, in order. */
  readonly #from: number[] = []
  readonly #to: number[] = []
  /** The replacements, as ranges of `text`. */
  readonly #textFrom: number[] = []
  readonly #textTo: number[] = []
  /**
   * For each replacement: the slot whose value the replacement contains (-1: no slot), the start of this value in
   * `text`, and the slot's second number.
   */
  readonly #slot: number[] = []
  readonly #valueFrom: number[] = []
  readonly #valueTo: number[] = []
  #growth = 0

  clear(): void {
    this.count = 0
    this.text.clear()
    this.#growth = 0
  }

  /**
   * Replaces [from, to) by the bytes of `text` from `textFrom` on. Insertions at one place keep their order. If the
   * bytes contain the value of `slot`, the value begins at `valueFrom`, and `valueTo` is the slot's second number.
   */
  add(from: number, to: number, textFrom = this.text.length, slot = -1, valueFrom = 0, valueTo = 0): void {
    let at = this.count++
    for (; at > 0 && this.#from[at - 1]! > from; at--) {
      this.#from[at] = this.#from[at - 1]!
      this.#to[at] = this.#to[at - 1]!
      this.#textFrom[at] = this.#textFrom[at - 1]!
      this.#textTo[at] = this.#textTo[at - 1]!
      this.#slot[at] = this.#slot[at - 1]!
      this.#valueFrom[at] = this.#valueFrom[at - 1]!
      this.#valueTo[at] = this.#valueTo[at - 1]!
    }
    this.#from[at] = from
    this.#to[at] = to
    this.#textFrom[at] = textFrom
    this.#textTo[at] = this.text.length
    this.#slot[at] = slot
    this.#valueFrom[at] = valueFrom
    this.#valueTo[at] = valueTo
    this.#growth += this.#growthOf(at)
  }

  overlap(from: number, to: number): boolean {
    for (let at = 0; at < this.count; at++) if (this.#from[at]! < to && from < this.#to[at]!) return true
    return false
  }

  get growth(): number {
    return this.#growth
  }

  /**
   * Writes the text [start, end) to position `at` of `to`, applies the changes there, and moves the slots of the text.
   * `to` needs room for the longer of the old and the new text.
   */
  apply(b: Buffer, start: number, end: number, to: Buffer, at: number, slots: Int32Array): void {
    for (let n = 0; n < slots.length; n += SLOT) if (slots[n] !== 0) this.#move(slots, n, at - start)
    // Copying within a buffer takes half the time of copying from another buffer.
    writeBytes(b, start, end, to, at)
    const by = at - start
    let growth = this.#growth
    for (let n = this.count - 1; n >= 0; growth -= this.#growthOf(n--)) {
      if (growth > 0) to.copyWithin(this.#to[n]! + by + growth, this.#to[n]! + by, this.#endAfter(n, end) + by)
    }
    for (let n = 0; n < this.count; n++) {
      const from = this.#from[n]! + by + growth
      growth += this.#growthOf(n)
      if (growth < 0) to.copyWithin(this.#to[n]! + by + growth, this.#to[n]! + by, this.#endAfter(n, end) + by)
      const textFrom = this.#textFrom[n]!
      writeBytes(this.text.bytes, textFrom, this.#textTo[n]!, to, from)
      if (this.#slot[n] === -1) continue
      const slot = this.#slot[n]! * SLOT
      slots[slot] = this.#valueFrom[n]! + from - textFrom
      slots[slot + 1] = this.#valueTo[n]! + ((from - textFrom) << 1)
    }
  }

  /** Returns the end of the unchanged bytes after range `n`. */
  #endAfter(n: number, end: number): number {
    return n + 1 < this.count ? this.#from[n + 1]! : end
  }

  /**
   * Moves a slot to the position of its value after the changes. The start of the value moves by `by` plus the growth
   * before the value. The end of the value also moves by the growth within the value.
   */
  #move(slots: Int32Array, at: number, by: number): void {
    const start = slots[at]!
    const end = slots[at + 1]! >> 1
    let n = 0
    for (; n < this.count && this.#to[n]! <= start; n++) by += this.#growthOf(n)
    slots[at] = start + by
    for (; n < this.count && this.#from[n]! < end; n++) by += this.#growthOf(n)
    slots[at + 1]! += by << 1
  }

  #growthOf(n: number): number {
    return this.#textTo[n]! - this.#textFrom[n]! - (this.#to[n]! - this.#from[n]!)
  }
}
