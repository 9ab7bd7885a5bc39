/** Bytes in the kernel's memory. At least 32 more bytes of memory must follow the bytes that are read or written. */

export const QUOTE: u32 = 0x22
export const BACKSLASH: u32 = 0x5c
export const COMMA: u32 = 0x2c
export const COLON: u32 = 0x3a
export const OPEN_OBJECT: u32 = 0x7b
export const CLOSE_OBJECT: u32 = 0x7d
export const OPEN_ARRAY: u32 = 0x5b
export const CLOSE_ARRAY: u32 = 0x5d
export const SPACE: u32 = 0x20

@inline
export function byteAt(p: usize): u32 {
  return <u32>load<u8>(p)
}

@inline
export function isDigit(byte: u32): bool {
  return byte - 0x30 < 10
}

/** Returns the address of the first `byte` from `p` on, or `end` if that byte does not occur before `end`. */
@inline
export function find(p: usize, end: usize, byte: u8): usize {
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
