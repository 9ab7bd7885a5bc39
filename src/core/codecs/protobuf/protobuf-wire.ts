export const VARINT = 0
export const FIXED_64 = 1
export const BYTES = 2
export const GROUP = 3
export const END_GROUP = 4
export const FIXED_32 = 5

const MOST_VARINT_BYTES = 10
/** Maximum nesting of groups, and of messages. */
export const MOST_NESTING = 100

/** Google's wrapper types, whose messages contain one value. */
export const WRAPPERS: readonly string[] = [
  ...['DoubleValue', 'FloatValue', 'Int64Value', 'UInt64Value', 'Int32Value', 'UInt32Value'],
  ...['BoolValue', 'StringValue', 'BytesValue'],
]

export class NotProtobuf extends Error {}
const BROKEN = new NotProtobuf('not a message')

export function broken(): never {
  throw BROKEN
}

/** Reads values in order from the bytes of a message. Throws NotProtobuf if the bytes end too soon. */
export class WireReader {
  readonly b: Buffer
  p: number
  end: number
  /** The upper 32 bits of the last varint. */
  high = 0

  constructor(b: Buffer, start: number, end: number) {
    this.b = b
    this.p = start
    this.end = end
  }

  static of(bytes: Buffer): WireReader {
    return new WireReader(bytes, 0, bytes.length)
  }

  at(p: number): this {
    this.p = p
    return this
  }

  /** Reads a length. Returns a reader of that many bytes, and moves past them. */
  inner(): WireReader {
    const size = this.length()
    const from = this.take(size)
    return new WireReader(this.b, from, from + size)
  }

  /** Reads a length. Returns that many bytes as text, and moves past them. */
  text(encoding: 'utf8' | 'base64'): string {
    const size = this.length()
    const from = this.take(size)
    return this.b.toString(encoding, from, from + size)
  }

  rest(): Buffer {
    return this.b.subarray(this.p, this.end)
  }

  /** Reads a varint. Returns its lower 32 bits as a signed integer. `high` then has the upper 32 bits. */
  varint(): number {
    const { b, end } = this
    this.high = 0
    let p = this.p
    if (p < end && b[p]! < 0x80) {
      this.p = p + 1
      return b[p]!
    }
    let low = 0
    let high = 0
    for (let n = 0; ; n++) {
      if (p >= end || n === MOST_VARINT_BYTES) broken()
      const byte = b[p++]!
      const bits = byte & 0x7f
      if (n < 4) low |= bits << (7 * n)
      else if (n === 4) {
        low |= bits << 28
        high = bits >>> 4
      } else if (n < 9) high |= bits << (7 * n - 32)
      else high |= bits << 31
      if (byte < 0x80) break
    }
    this.p = p
    this.high = high
    return low
  }

  /** Reads a varint that is the length of the bytes after it. */
  length(): number {
    const length = this.varint() >>> 0
    if (this.high !== 0 || length > this.end - this.p) broken()
    return length
  }

  /** Moves past `size` bytes. Returns their start. */
  take(size: number): number {
    const from = this.p
    if (size > this.end - from) broken()
    this.p = from + size
    return from
  }

  /** Moves past the value of a field. `tag`: its number and wire type. */
  skip(tag: number): void {
    for (let level = 0; ; ) {
      const type = tag & 7
      if (type === VARINT) this.varint()
      else if (type === FIXED_64) this.take(8)
      else if (type === BYTES) this.take(this.length())
      else if (type === FIXED_32) this.take(4)
      else if (type === GROUP && level < MOST_NESTING) level++
      else if (type === END_GROUP && level > 0) level--
      else broken()
      if (level === 0) return
      tag = this.varint()
    }
  }
}
