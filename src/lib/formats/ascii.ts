export const TAB = 0x09
export const LF = 0x0a
export const CR = 0x0d
export const SPACE = 0x20
export const QUOTE = 0x22
export const APOSTROPHE = 0x27
export const PLUS = 0x2b
export const COMMA = 0x2c
export const MINUS = 0x2d
export const DASH = 0x2d
export const POINT = 0x2e
export const DOT = 0x2e
export const SLASH = 0x2f
export const ZERO = 0x30
export const NINE = 0x39
export const COLON = 0x3a
export const EQUALS = 0x3d
export const OPEN_ARRAY = 0x5b
export const BACKSLASH = 0x5c
export const CLOSE_ARRAY = 0x5d
export const OPEN_OBJECT = 0x7b
export const CLOSE_OBJECT = 0x7d

export function isDigit(byte = 0): boolean {
  return byte >= ZERO && byte <= NINE
}

/** Whether the bytes [p, end) begin with `text`. */
export function isAt(b: Uint8Array, p: number, end: number, text: Uint8Array): boolean {
  if (end - p < text.length) return false
  for (let i = 0; i < text.length; i++) if (b[p + i] !== text[i]) return false
  return true
}
