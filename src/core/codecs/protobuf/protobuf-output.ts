import type { GrowingBytes } from '../../../lib/formats/growing-bytes.js'

export class WireWriter {
  to!: GrowingBytes

  tag(number: number, wire: number): void {
    this.varint((number << 3) | wire, number >>> 29)
  }

  /** Writes a varint of 64 bits, given as two halves. */
  varint(low: number, high = 0): void {
    const { to } = this
    to.reserve(10)
    while (high !== 0) {
      to.bytes[to.length++] = (low & 0x7f) | 0x80
      low = (low >>> 7) | (high << 25)
      high >>>= 7
    }
    low >>>= 0
    while (low >= 0x80) {
      to.bytes[to.length++] = (low & 0x7f) | 0x80
      low >>>= 7
    }
    to.bytes[to.length++] = low
  }

  fixed(value: number | bigint, size: 4 | 8): void {
    const { to } = this
    to.reserve(8)
    to.bytes.writeUInt32LE(lowOf(value), to.length)
    if (size === 8) to.bytes.writeUInt32LE(highOf(value), to.length + 4)
    to.length += size
  }

  float(value: number): void {
    this.to.reserve(4)
    this.to.bytes.writeFloatLE(value, this.to.length)
    this.to.length += 4
  }

  double(value: number): void {
    this.to.reserve(8)
    this.to.bytes.writeDoubleLE(value, this.to.length)
    this.to.length += 8
  }

  /** Reserves `room` bytes for the length of the following value. Returns the start of the value. */
  begin(room = 1): number {
    const { to } = this
    to.reserve(room)
    to.length += room
    return to.length
  }

  /** Writes the length of the value at `from`. Moves the value if this length takes more or less than `room` bytes. */
  end(from: number, room = 1): void {
    const { to } = this
    const size = to.length - from
    let more = 1 - room
    for (let left = size; left >= 0x80; left >>>= 7) more++
    const stop = to.length + more
    if (more !== 0) {
      to.reserve(more)
      to.bytes.copyWithin(from + more, from, to.length)
    }
    to.length = from - room
    this.varint(size)
    to.length = stop
  }
}

/** `lowOf` returns the lower 32 bits of an integer in two's complement, `highOf` the upper ones. */
export const lowOf = (value: number | bigint) =>
  typeof value === 'number' ? value >>> 0 : Number(BigInt.asUintN(32, value))
export const highOf = (value: number | bigint) =>
  typeof value === 'number' ? Math.floor(value / 2 ** 32) >>> 0 : Number(BigInt.asUintN(32, value >> 32n))
