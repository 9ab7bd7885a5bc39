import { FramingError, type RecordScanner } from '../../../lib/lines/framed-splitter.js'

const MOST_VARINT_BYTES = 5
const MOST_BYTES = 2 ** 31 - 1

/** Finds the ends of records that begin with their length, as a varint or as four bytes in big-endian order. */
export class LengthScanner implements RecordScanner {
  readonly #isVarint: boolean
  /** Remaining bytes of the record; undefined while its length is unknown. */
  #left: number | undefined

  constructor(isVarint: boolean) {
    this.#isVarint = isVarint
  }

  find(b: Buffer, p: number, to: number): number {
    if (this.#left === undefined) {
      const head = this.#isVarint ? varintSize(b, p, to) : 4
      if (p + head > to) return ~p
      const size = this.#isVarint ? varintAt(b, p, head) : b.readUInt32BE(p)
      if (size > MOST_BYTES) throw new FramingError(`${size} is not the length of a message`, p)
      this.#left = size
      p += head
    }
    const seen = Math.min(this.#left, to - p)
    this.#left -= seen
    p += seen
    if (this.#left > 0) return ~p
    this.#left = undefined
    return p
  }
}

/**
 * Returns the size in bytes of the length at the start of a record. If that length is incomplete, returns the number of
 * available bytes plus one.
 */
export function varintSize(b: Buffer, p: number, to: number): number {
  for (let n = 0; n < MOST_VARINT_BYTES; n++) {
    if (p + n >= to) return to - p + 1
    if (b[p + n]! < 0x80) return n + 1
  }
  throw new FramingError('this is not the length of a message', p)
}

function varintAt(b: Buffer, p: number, size: number): number {
  let value = 0
  for (let n = size - 1; n >= 0; n--) value = value * 128 + (b[p + n]! & 0x7f)
  return value
}
