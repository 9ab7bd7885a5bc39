import { Byte, byteAt, isDigitByte } from './bytes'
import { plainEnd } from './special-characters'

/**
 * Finds the ends of JSON strings, numbers and literals. As in json-lines.ts, a control character and at least 16 more
 * bytes of memory must follow the text.
 */

/** `true`, `null`, and `false` without its first letter. */
export const TRUE: u32 = 0x65757274
export const NULL: u32 = 0x6c6c756e
export const ALSE: u32 = 0x65736c61

/** Whether the last string has an escape. */
export let escaped: u32 = 0

@inline
function isHex(byte: u32): bool {
  return byte - 0x30 < 10 || (byte | 0x20) - 0x61 < 6
}

/** Returns the address of the closing quote of a string that has an escape at `p`; 0: the string is invalid. */
export function escapedStringEnd(p: usize): usize {
  escaped = 1
  while (byteAt(p) == Byte.BACKSLASH) {
    const letter = byteAt(p + 1)
    if (letter == 0x75) {
      for (let i: usize = 2; i < 6; i++) if (!isHex(byteAt(p + i))) return 0
      p = plainEnd(p + 6)
    } else if (
      letter == Byte.QUOTE ||
      letter == Byte.BACKSLASH ||
      letter == 0x2f ||
      letter == 0x62 ||
      letter == 0x66 ||
      letter == 0x6e ||
      letter == 0x72 ||
      letter == 0x74
    )
      p = plainEnd(p + 2)
    else return 0
  }
  return byteAt(p) == Byte.QUOTE ? p : 0
}

/**
 * Returns the address of the closing quote of a string; 0: the string is invalid. `p`: the byte after the opening
 * quote.
 */
@inline
export function stringEndAt(p: usize): usize {
  const end = plainEnd(p)
  if (byteAt(end) == Byte.QUOTE) {
    escaped = 0
    return end
  }
  return escapedStringEnd(end)
}

/** Like `numberEnd`. Also reads numbers with an exponent or with 16 or more digits in a row. */
function longNumberEnd(p: usize): usize {
  if (byteAt(p) == 0x2d) p++
  let digits = p
  if (byteAt(p) == 0x30) p++
  else {
    while (isDigitByte(byteAt(p))) p++
    if (p == digits) return 0
  }
  if (byteAt(p) == 0x2e) {
    digits = ++p
    while (isDigitByte(byteAt(p))) p++
    if (p == digits) return 0
  }
  if ((byteAt(p) | 0x20) == 0x65) {
    p++
    if (byteAt(p) == 0x2b || byteAt(p) == 0x2d) p++
    digits = p
    while (isDigitByte(byteAt(p))) p++
    if (p == digits) return 0
  }
  return p
}

/** Returns the number of consecutive digits from `p` on. The result 16 means 16 or more. */
@inline
export function digitsFrom(p: usize): u32 {
  const digits = i8x16.sub(v128.load(p), i8x16.splat(0x30))
  return ctz(~i8x16.bitmask(i8x16.eq(digits, i8x16.min_u(digits, i8x16.splat(9)))))
}

/** Returns where the number at `p` ends; 0: it is invalid. */
@inline
export function numberEnd(p: usize): usize {
  let end = byteAt(p) == 0x2d ? p + 1 : p
  let digits = digitsFrom(end)
  if (digits == 0 || (byteAt(end) == 0x30 && digits > 1)) return 0
  end += <usize>digits
  if (byteAt(end) == 0x2e) {
    const fraction = digitsFrom(end + 1)
    if (fraction == 0) return 0
    digits |= fraction
    end += <usize>fraction + 1
  }
  return digits >= 16 || (byteAt(end) | 0x20) == 0x65 ? longNumberEnd(p) : end
}

/** Returns where the number or literal at `p` ends; 0: it is invalid. */
export function scalarEnd(p: usize): usize {
  switch (byteAt(p)) {
    case 0x74:
      return load<u32>(p) == TRUE ? p + 4 : 0
    case 0x66:
      return load<u32>(p + 1) == ALSE ? p + 5 : 0
    case 0x6e:
      return load<u32>(p) == NULL ? p + 4 : 0
    default:
      return numberEnd(p)
  }
}

