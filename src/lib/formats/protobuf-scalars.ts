import { TYPE } from './protobuf-descriptor.js'
import type { WireReader } from './protobuf-wire.js'

/** Types of 64 bits that are signed integers, and those that are not. */
const WIDE_SIGNED: ReadonlySet<number> = new Set([TYPE.int64, TYPE.sint64, TYPE.sfixed64])
const WIDE_UNSIGNED: ReadonlySet<number> = new Set([TYPE.uint64, TYPE.fixed64])

/** The number or boolean at the place of the reader. `isText`: integers of 64 bits are texts. */
export function scalarText(reader: WireReader, type: number, isText: boolean): string {
  switch (type) {
    case TYPE.int32:
      return String(reader.varint() | 0)
    case TYPE.uint32:
      return String(reader.varint() >>> 0)
    case TYPE.sint32: {
      const bits = reader.varint()
      return String((bits >>> 1) ^ -(bits & 1))
    }
    case TYPE.bool:
      return String((reader.varint() | reader.high) !== 0)
    case TYPE.fixed32:
      return String(reader.b.readUInt32LE(reader.take(4)))
    case TYPE.sfixed32:
      return String(reader.b.readInt32LE(reader.take(4)))
    case TYPE.float:
      return numberText(shortest(reader.b.readFloatLE(reader.take(4))))
    case TYPE.double:
      return numberText(reader.b.readDoubleLE(reader.take(8)))
    default:
      return isText ? `"${wideText(reader, type)}"` : wideText(reader, type)
  }
}

/** What a number or boolean is that is missing. */
export function zeroText(type: number, isText: boolean): string {
  if (type === TYPE.bool) return 'false'
  return isText && (WIDE_SIGNED.has(type) || WIDE_UNSIGNED.has(type)) ? '"0"' : '0'
}

function wideText(reader: WireReader, type: number): string {
  let low: number
  let high: number
  if (type === TYPE.fixed64 || type === TYPE.sfixed64) {
    const from = reader.take(8)
    low = reader.b.readUInt32LE(from)
    high = reader.b.readUInt32LE(from + 4)
  } else {
    low = reader.varint()
    high = reader.high
  }
  if (type === TYPE.sint64) {
    const sign = -(low & 1)
    low = ((low >>> 1) | (high << 31)) ^ sign
    high = (high >>> 1) ^ sign
  }
  const upper = WIDE_SIGNED.has(type) ? high | 0 : high >>> 0
  const isSafe = upper >= -(2 ** 20) && upper < 2 ** 21
  return String(isSafe ? upper * 2 ** 32 + (low >>> 0) : (BigInt(upper) << 32n) | BigInt(low >>> 0))
}

function numberText(value: number): string {
  if (!Number.isFinite(value)) return `"${value}"`
  return Object.is(value, -0) ? '-0' : String(value)
}

/** The number with the fewest digits that is this one in 32 bits. */
function shortest(value: number): number {
  if (!Number.isFinite(value) || (Number.isInteger(value) && Math.abs(value) < 2 ** 24)) return value
  for (let digits = 6; digits < 9; digits++) {
    const rounded = Number(value.toPrecision(digits))
    if (Math.fround(rounded) === value) return rounded
  }
  return Number(value.toPrecision(9))
}
