import { Byte, byteAt } from './bytes'

const CONTROLS: u32 = 0x20
/** The escape of a control character, up to its last two digits: `\u00`. */
const CONTROL: u32 = 0x3030755c
const DIGIT_ZERO: u32 = 0x30
/** Between the digit 9 and the letter a, less 1. */
const TO_LETTER: u32 = 0x27

@inline
function hexDigit(value: u32): u8 {
  return <u8>(value < 10 ? DIGIT_ZERO + value : DIGIT_ZERO + TO_LETTER + value)
}

/** Returns the letter of a short escape; 0 if `byte` has none. */
@inline
function letterOf(byte: u32): u32 {
  if (byte == Byte.QUOTE || byte == Byte.BACKSLASH) return byte
  if (byte == 0x0a) return 0x6e
  if (byte == 0x09) return 0x74
  if (byte == 0x0d) return 0x72
  if (byte == 0x08) return 0x62
  return byte == 0x0c ? 0x66 : 0
}

/** Writes the text [p, end) as the content of a JSON string, up to 6 bytes for each byte. Returns its end. */
export function putEscaped(p: usize, end: usize, to: usize): usize {
  while (p < end) {
    const bytes = v128.load(p)
    v128.store(to, bytes)
    const quotes = i8x16.eq(bytes, i8x16.splat(<i8>Byte.QUOTE))
    const backslashes = i8x16.eq(bytes, i8x16.splat(<i8>Byte.BACKSLASH))
    const controls = i8x16.eq(bytes, i8x16.min_u(bytes, i8x16.splat(<i8>(CONTROLS - 1))))
    const plain = <usize>ctz(i8x16.bitmask(v128.or(v128.or(quotes, backslashes), controls)) | 0x10000)
    if (plain >= end - p) return to + (end - p)
    p += plain
    to += plain
    if (plain == 16) continue
    const byte = byteAt(p++)
    const letter = letterOf(byte)
    if (letter != 0) {
      store<u16>(to, <u16>(Byte.BACKSLASH | (letter << 8)))
      to += 2
      continue
    }
    store<u32>(to, CONTROL)
    store<u8>(to, hexDigit(byte >> 4), 4)
    store<u8>(to, hexDigit(byte & 15), 5)
    to += 6
  }
  return to
}
