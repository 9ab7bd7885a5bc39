import { byteAt, isDigitByte } from './bytes'
import { daysIn, twoDigits } from './dates'

/** Length of `2026-01-31T12:00:00`. */
const SECOND: usize = 19

/** The last time without its fraction. Cached, since many lines share it. */
const last: usize = memory.data(32)

function isSecond(p: usize): bool {
  const year = twoDigits(p) * 100 + twoDigits(p + 2)
  const month = twoDigits(p + 5)
  const day = twoDigits(p + 8)
  if (byteAt(p + 4) != 0x2d || byteAt(p + 7) != 0x2d || byteAt(p + 10) != 0x54) return false
  if (byteAt(p + 13) != 0x3a || byteAt(p + 16) != 0x3a) return false
  if (year > 9999 || month == 0 || month > 12 || day == 0 || day > daysIn(year, month)) return false
  return twoDigits(p + 11) < 24 && twoDigits(p + 14) < 60 && twoDigits(p + 17) < 60
}

/** Whether [p, end) is a time such as 2026-01-31T12:00:00.123456789Z, with a zone. */
export function isIsoTime(p: usize, end: usize): bool {
  if (end - p <= SECOND) return false
  const first = v128.load(p)
  const rest = v128.load(p, 3)
  const differs = v128.or(v128.xor(first, v128.load(last)), v128.xor(rest, v128.load(last, 3)))
  if (v128.any_true(differs)) {
    if (!isSecond(p)) return false
    v128.store(last, first)
    v128.store(last, rest, 3)
  }
  p += SECOND
  if (byteAt(p) == 0x2e) {
    const fraction = ++p
    while (p < end && isDigitByte(byteAt(p))) p++
    if (p == fraction) return false
  }
  const sign = byteAt(p)
  if (sign == 0x5a) return p + 1 == end
  if (p + 6 != end || (sign != 0x2b && sign != 0x2d) || byteAt(p + 3) != 0x3a) return false
  return twoDigits(p + 1) < 24 && twoDigits(p + 4) < 60
}
