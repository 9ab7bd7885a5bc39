/** Bytes in the kernel's memory. At least 32 more bytes of memory must follow the bytes that are read or written. */

export enum Byte {
  SPACE = 0x20,
  QUOTE = 0x22,
  COMMA = 0x2c,
  COLON = 0x3a,
  OPEN_ARRAY = 0x5b,
  BACKSLASH = 0x5c,
  CLOSE_ARRAY = 0x5d,
  OPEN_OBJECT = 0x7b,
  CLOSE_OBJECT = 0x7d,
}

@inline
export function byteAt(p: usize): u32 {
  return <u32>load<u8>(p)
}

@inline
export function isDigitByte(byte: u32): bool {
  return byte - 0x30 < 10
}

/** Returns the address of the first `byte` from `p` on, or `end` if that byte does not occur before `end`. */
@inline
export function findByte(p: usize, end: usize, byte: u8): usize {
  const wanted = i8x16.splat(<i8>byte)
  while (p < end) {
    const found = i8x16.bitmask(i8x16.eq(v128.load(p), wanted))
    if (found != 0) {
      p += <usize>ctz(found)
      return p < end ? p : end
    }
    p += 16
  }
  return end
}

/** Whether the text [p, end) contains neither control characters nor backslashes. */
export function isPlain(p: usize, end: usize): bool {
  while (p < end) {
    const bytes = v128.load(p)
    const controls = i8x16.eq(bytes, i8x16.min_u(bytes, i8x16.splat(0x1f)))
    const others = v128.or(controls, i8x16.eq(bytes, i8x16.splat(0x5c)))
    const found = i8x16.bitmask(others)
    if (found != 0) return p + <usize>ctz(found) >= end
    p += 16
  }
  return true
}
