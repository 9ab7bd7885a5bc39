/** What an entry may take: a value counts so much, and a text its bytes. The largest known entries take some kilobytes. */
const MOST_BYTES = 256 * 1024
const VALUE_BYTES = 8
const DEEPEST = 64

/** Types of values, as the format numbers them. */
const EXTENDED = 0
const POINTER = 1
const DOUBLE = 3
const MAP = 7
const ARRAY = 11
const BOOLEAN = 14
const FLOAT = 15

/** What is added to a pointer of 1, 2, 3 and 4 bytes. */
const POINTER_OFFSETS = [0, 2048, 526336, 0]

/** An entry of a MaxMind database is too large to be decoded. */
export class EntryTooLarge extends Error {}

/**
 * Measures entries of a MaxMind database before they are decoded: with pointers, a file of a few hundred bytes can have
 * an entry of any size. Invariant: a check takes time in proportion to the bound. Damage is left to the decoder to find.
 */
export class EntryBounds {
  readonly #bytes: Buffer
  /** Where the section of the entry begins, from which pointers count. */
  readonly #base: number
  #left = 0

  constructor(bytes: Buffer, base: number) {
    this.#bytes = bytes
    this.#base = base
  }

  /** Throws EntryTooLarge if the entry at `offset` has too many values, or too long ones. */
  check(offset: number): void {
    this.#left = MOST_BYTES
    this.#walk(offset, 0)
  }

  /** Returns the end of the value at `offset`. */
  #walk(offset: number, depth: number): number {
    const b = this.#bytes
    this.#take(VALUE_BYTES)
    if (depth > DEEPEST) throw new EntryTooLarge(`it is nested more than ${DEEPEST} deep`)
    if (offset >= b.length) return offset
    const control = b[offset]!
    let at = offset + 1
    let type = control >> 5
    if (type === POINTER) {
      const length = ((control >> 3) & 3) + 1
      if (at + length > b.length) return b.length
      const high = length === 4 ? 0 : (control & 7) * 2 ** (8 * length)
      this.#walk(this.#base + POINTER_OFFSETS[length - 1]! + high + b.readUIntBE(at, length), depth + 1)
      return at + length
    }
    if (type === EXTENDED) type = (b[at++] ?? 0) + 7
    let size = control & 0x1f
    if (size >= 29) {
      const length = size - 28
      if (at + length > b.length) return b.length
      size = [29, 285, 65821][length - 1]! + b.readUIntBE(at, length)
      at += length
    }
    if (type === BOOLEAN) return at
    if (type === DOUBLE || type === FLOAT) return at + size
    if (type !== MAP && type !== ARRAY) {
      this.#take(size)
      return at + size
    }
    const values = type === MAP ? 2 * size : size
    if (values * VALUE_BYTES > this.#left) this.#take(values * VALUE_BYTES)
    for (let n = 0; n < values; n++) at = this.#walk(at, depth + 1)
    return at
  }

  #take(bytes: number): void {
    this.#left -= bytes
    if (this.#left < 0) throw new EntryTooLarge(`it takes more than ${MOST_BYTES / 1024} KiB`)
  }
}
