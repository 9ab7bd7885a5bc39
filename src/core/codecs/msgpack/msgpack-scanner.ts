import { FramingError, type RecordScanner } from '../../../lib/lines/framed-splitter.js'

/** The range of types whose type byte contains no part of the value. In this range, the byte 0xc1 is not a type. */
export const FIRST_TYPE = 0xc0
export const LAST_TYPE = 0xdf
/** For each of these types: how many bytes after the type byte contain the length. */
export const LENGTH_BYTES = Uint8Array.of(
  ...[0, 0, 0, 0, 1, 2, 4, 1, 2, 4, 0, 0, 0, 0, 0, 0],
  ...[0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 2, 4, 2, 4],
)
/** For each of these types: how many bytes follow besides the length and the bytes that it counts. */
export const FIXED_BYTES = Uint8Array.of(
  ...[0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 4, 8, 1, 2, 4, 8],
  ...[1, 2, 4, 8, 2, 3, 5, 9, 17, 0, 0, 0, 0, 0, 0, 0],
)
export const ARRAY_16 = 0xdc
export const MAP_16 = 0xde

/** Returns the number in the `size` (0 to 4) bytes at `p`. */
export function lengthAt(b: Buffer, p: number, size: number): number {
  let length = 0
  for (let i = 0; i < size; i++) length = length * 256 + b[p + i]!
  return length
}

const beginsRecord = (byte: number) => (byte >= 0x80 && byte < 0xa0) || (byte >= ARRAY_16 && byte <= LAST_TYPE)

/** Finds the ends of MessagePack values, which have no delimiters. */
export class MsgpackScanner implements RecordScanner {
  /** Remaining values of the record, and remaining bytes of the current value. */
  #values = 1
  #bytes = 0
  #isInside = false

  find(b: Buffer, p: number, to: number): number {
    let values = this.#values
    let bytes = this.#bytes
    if (!this.#isInside && p < to) {
      if (!beginsRecord(b[p]!)) throw new FramingError(`${hex(b[p]!)} does not begin a map of MessagePack`, p)
      this.#isInside = true
    }
    for (;;) {
      if (bytes > 0) {
        const seen = Math.min(bytes, to - p)
        p += seen
        bytes -= seen
        if (bytes > 0) break
      }
      if (values === 0) {
        this.#values = 1
        this.#bytes = 0
        this.#isInside = false
        return p
      }
      if (p === to) break
      const type = b[p]!
      if (type < FIRST_TYPE || type > LAST_TYPE) {
        if (type >= 0xa0 && type < FIRST_TYPE) bytes = type & 31
        else if (type >= 0x90 && type < 0xa0) values += type & 15
        else if (type >= 0x80 && type < 0x90) values += 2 * (type & 15)
        values--
        p++
        continue
      }
      const size = LENGTH_BYTES[type - FIRST_TYPE]!
      if (p + 1 + size > to) break
      if (type === 0xc1) throw new FramingError(`${hex(type)} is not a type of MessagePack`, p)
      const length = lengthAt(b, p + 1, size)
      values--
      if (type >= MAP_16) values += 2 * length
      else if (type >= ARRAY_16) values += length
      else bytes = length + FIXED_BYTES[type - FIRST_TYPE]!
      p += 1 + size
    }
    this.#values = values
    this.#bytes = bytes
    return ~p
  }
}

const hex = (byte: number) => `0x${byte.toString(16).padStart(2, '0')}`
