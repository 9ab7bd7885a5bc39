import type { GrowingBytes } from '../../../lib/formats/growing-bytes.js'
import { addInteger } from '../../../lib/formats/json-numbers.js'
import { TYPE } from './protobuf-descriptor.js'
import type { WireReader } from './protobuf-wire.js'

const QUOTE = 0x22
const TRUE = Buffer.from('true')
const FALSE = Buffer.from('false')
const WIDE_SIGNED: ReadonlySet<number> = new Set([TYPE.int64, TYPE.sint64, TYPE.sfixed64])
const WIDE_UNSIGNED: ReadonlySet<number> = new Set([TYPE.uint64, TYPE.fixed64])

/** Adds the number or boolean at the reader's position. `isText`: writes 64-bit integers as text. */
export function addScalar(reader: WireReader, to: GrowingBytes, type: number, isText: boolean): void {
  switch (type) {
    case TYPE.int32:
      addInteger(to, reader.varint() | 0)
      break
    case TYPE.uint32:
      addInteger(to, reader.varint() >>> 0)
      break
    case TYPE.sint32: {
      const bits = reader.varint()
      addInteger(to, (bits >>> 1) ^ -(bits & 1))
      break
    }
    case TYPE.bool:
      addBoolean(to, (reader.varint() | reader.high) !== 0)
      break
    case TYPE.fixed32:
      addInteger(to, reader.b.readUInt32LE(reader.take(4)))
      break
    case TYPE.sfixed32:
      addInteger(to, reader.b.readInt32LE(reader.take(4)))
      break
    case TYPE.float:
      addNumber(to, shortest(reader.b.readFloatLE(reader.take(4))))
      break
    case TYPE.double:
      addNumber(to, reader.b.readDoubleLE(reader.take(8)))
      break
    default:
      addWide(reader, to, type, isText)
  }
}

export function addZero(to: GrowingBytes, type: number, isText: boolean): void {
  if (type === TYPE.bool) addBoolean(to, false)
  else if (isText && (WIDE_SIGNED.has(type) || WIDE_UNSIGNED.has(type))) to.addText('"0"')
  else addInteger(to, 0)
}

function addBoolean(to: GrowingBytes, value: boolean): void {
  const word = value ? TRUE : FALSE
  to.add(word, 0, word.length)
}

function addWide(reader: WireReader, to: GrowingBytes, type: number, isText: boolean): void {
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
  if (isText) to.addByte(QUOTE)
  const upper = WIDE_SIGNED.has(type) ? high | 0 : high >>> 0
  const isSafe = upper >= -(2 ** 20) && upper < 2 ** 21
  addInteger(to, isSafe ? upper * 2 ** 32 + (low >>> 0) : (BigInt(upper) << 32n) | BigInt(low >>> 0))
  if (isText) to.addByte(QUOTE)
}

function addNumber(to: GrowingBytes, value: number): void {
  to.addText(!Number.isFinite(value) ? `"${value}"` : Object.is(value, -0) ? '-0' : String(value))
}

/** Of all numbers that are equal to `value` as a 32-bit float, returns the one with the fewest digits. */
function shortest(value: number): number {
  if (!Number.isFinite(value) || (Number.isInteger(value) && Math.abs(value) < 2 ** 24)) return value
  for (let digits = 6; digits < 9; digits++) {
    const rounded = Number(value.toPrecision(digits))
    if (Math.fround(rounded) === value) return rounded
  }
  return Number(value.toPrecision(9))
}
