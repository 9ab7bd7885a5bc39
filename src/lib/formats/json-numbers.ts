import { MINUS, ZERO } from './ascii.js'
import type { GrowingBytes } from './growing-bytes.js'

/** Maximum digits of an integer that JavaScript always writes as it was read. */
export const LONGEST_PLAIN_NUMBER = 15
/** Characters of the largest exact integer, with its sign. */
const MOST_DIGITS = 17

export function addInteger(to: GrowingBytes, value: number | bigint): void {
  if (typeof value === 'bigint') {
    to.addText(String(value))
    return
  }
  to.reserve(MOST_DIGITS)
  const { bytes } = to
  let left = value
  if (left < 0) {
    bytes[to.length++] = MINUS
    left = -left
  }
  let size = 1
  for (let ten = 10; ten <= left; ten *= 10) size++
  for (let at = to.length + size - 1; at >= to.length; at--) {
    const rest = Math.floor(left / 10)
    bytes[at] = ZERO + (left - rest * 10)
    left = rest
  }
  to.length += size
}

/** Adds a number with its fraction, even a fraction of 0, which shows the type. NaN and infinities become null. */
export function addFloat(to: GrowingBytes, value: number): void {
  if (!Number.isFinite(value)) to.addText('null')
  else if (!Number.isInteger(value) || Math.abs(value) >= 1e21) to.addText(String(value))
  else to.addText(Object.is(value, -0) ? '-0.0' : `${value}.0`)
}

/** Whether [start, end), which is a JSON number, is an integer that a double cannot hold for certain. */
export function isLongInteger(bytes: Uint8Array, start: number, end: number): boolean {
  if (end - start <= LONGEST_PLAIN_NUMBER) return false
  let p = bytes[start] === MINUS ? start + 1 : start
  while (p < end && bytes[p]! >= ZERO && bytes[p]! <= ZERO + 9) p++
  return p === end
}

/**
 * Orders two texts of numbers whose doubles are both `double`: below 0 if `a` is less. A text that is not an integer
 * counts as the integer that its double holds.
 */
export function orderOfEqual(a: string, b: string, double: number): number {
  if (Number.isSafeInteger(double) || !Number.isInteger(double)) return 0
  const [one, other] = [digitsOf(a, double), digitsOf(b, double)]
  const order = one.length - other.length || (one < other ? -1 : Number(one > other))
  return double < 0 ? -order : order
}

function digitsOf(text: string, double: number): string {
  const [, digits] = /^\s*[+-]?(\d+)\s*$/.exec(text) ?? []
  return digits?.replace(/^0+/, '') ?? String(BigInt(Math.abs(double)))
}

/** If [start, end) is a short integer as String() writes it, returns this integer; otherwise NaN. Builds no string. */
export function plainInteger(bytes: Uint8Array, start: number, end: number): number {
  const negative = bytes[start] === 0x2d
  let p = negative ? start + 1 : start
  if (end - p > LONGEST_PLAIN_NUMBER) return Number.NaN
  if (bytes[p] === 0x30) return !negative && end === p + 1 ? 0 : Number.NaN
  let number = 0
  for (; p < end; p++) {
    const digit = bytes[p]! - 0x30
    if (digit < 0 || digit > 9) return Number.NaN
    number = number * 10 + digit
  }
  return negative ? -number : number
}
