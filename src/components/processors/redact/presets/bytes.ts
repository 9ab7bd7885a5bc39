/** Classes of bytes, as bits. */
export const DIGIT_BYTE = 1
export const HEX_BYTE = 2
/** Letters and digits. */
export const WORD_BYTE = 4
/** Base64 for URLs: letters, digits, - and _. */
export const BASE64URL_BYTE = 8
/** Characters of general tokens: those of BASE64URL, and . ~ + / =. */
export const TOKEN_BYTE = 16
/** Characters of an email address before its @. Others are allowed, but hardly ever used. */
export const LOCAL_BYTE = 32
/** Host names, including letters outside ASCII. */
export const HOST_BYTE = 64
/** Digits and upper-case letters. */
export const UPPER_BYTE = 128

const CLASSES = new Uint8Array(256)
const mark = (text: string, bits: number) => {
  for (const byte of Buffer.from(text)) CLASSES[byte]! |= bits
}
mark('0123456789', DIGIT_BYTE)
mark('0123456789abcdefABCDEF', HEX_BYTE)
for (let byte = 0; byte < 256; byte++) {
  if (!/[0-9A-Za-z]/.test(String.fromCharCode(byte))) continue
  CLASSES[byte]! |= WORD_BYTE | BASE64URL_BYTE | TOKEN_BYTE | LOCAL_BYTE | HOST_BYTE
}
mark('-_', BASE64URL_BYTE | TOKEN_BYTE)
mark('.~+/=', TOKEN_BYTE)
mark("._%+-~'", LOCAL_BYTE)
mark('-', HOST_BYTE)
mark('0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ', UPPER_BYTE)
for (let byte = 0x80; byte < 256; byte++) CLASSES[byte]! |= LOCAL_BYTE | HOST_BYTE

export function is(byte: number | undefined, bits: number): boolean {
  return byte !== undefined && (CLASSES[byte]! & bits) !== 0
}

/** Returns the index of the first byte, from `p` on, that is not in any of these classes. */
export function endOf(b: Buffer, p: number, end: number, bits: number): number {
  while (p < end && (CLASSES[b[p]!]! & bits) !== 0) p++
  return p
}

/** Goes back from `p`, at most to `start`, over bytes of these classes. Returns where these bytes begin, or `p`. */
export function runStart(b: Buffer, p: number, start: number, bits: number): number {
  while (p > start && (CLASSES[b[p - 1]!]! & bits) !== 0) p--
  return p
}

/** Whether lower-case `text` is at `p`, ignoring case. A + there matches a space in `text`, as in forms. */
export function isTextAt(b: Buffer, p: number, end: number, text: string): boolean {
  if (p + text.length > end) return false
  for (let i = 0; i < text.length; i++) {
    const byte = b[p + i]!
    const lower = byte >= 0x41 && byte <= 0x5a ? byte + 0x20 : byte === 0x2b ? 0x20 : byte
    if (lower !== text.charCodeAt(i)) return false
  }
  return true
}

export function isExactAt(b: Buffer, p: number, end: number, text: string): boolean {
  if (p + text.length > end) return false
  for (let i = 0; i < text.length; i++) if (b[p + i] !== text.charCodeAt(i)) return false
  return true
}
