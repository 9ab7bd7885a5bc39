import { BACKSLASH, ZERO } from './ascii.js'

/** Writes JSON strings as JSON.stringify does, from bytes to bytes. */

/** Receives bytes in order. Copies ranges of less than 16 KiB, and may keep slices of larger ones. */
export interface ByteSink {
  add(source: Buffer, start: number, end: number): void
  /** Like the function `addEscaped`, if the sink has a faster way. */
  addEscaped?(source: Buffer, start: number, end: number): void
}

/** Adds bytes in parts so small that every sink copies them, because the caller reuses the memory of the bytes. */
export function addCopied(to: ByteSink, b: Buffer, start: number, end: number): void {
  for (; start < end; start += MOST_COPIED) to.add(b, start, Math.min(end, start + MOST_COPIED))
}

/** Up to this size, every sink copies bytes instead of keeping a slice of them. */
const MOST_COPIED = 16 * 1024 - 1
const U = 0x75
/** For each byte: the character after the backslash in its escape (`u` before four digits); 0: needs no escape. */
const LETTERS = Uint8Array.from({ length: 256 }, (_, byte) => {
  const [backslash, letter] = Buffer.from(JSON.stringify(String.fromCharCode(byte)).slice(1, -1))
  return byte < 0x80 && backslash === BACKSLASH ? letter! : 0
})
const DIGITS = Buffer.from('0123456789abcdef')

/** Maximum bytes that one escaped byte takes. */
export const MOST_ESCAPED = 6
/** Bytes of text that are escaped at a time: few enough that every sink copies them. */
const AT_ONCE = 2048
const escaped = Buffer.allocUnsafeSlow(AT_ONCE * MOST_ESCAPED)

/** Writes the UTF-8 text [start, end) as the content of a JSON string, without quotes. */
export function addEscaped(to: ByteSink, b: Buffer, start: number, end: number): void {
  if (to.addEscaped) {
    to.addEscaped(b, start, end)
    return
  }
  const plain = plainEnd(b, start, end)
  if (plain > start) to.add(b, start, plain)
  for (let from = plain; from < end; from += AT_ONCE) {
    to.add(escaped, 0, escapeInto(escaped, 0, b, from, Math.min(from + AT_ONCE, end)))
  }
}

/** Returns the index of the first byte that needs an escape; `end` if no byte does. Checks four bytes at a time. */
function plainEnd(b: Buffer, p: number, end: number): number {
  for (const stop = end - 3; p < stop; p += 4) {
    if (LETTERS[b[p]!] !== 0) return p
    if (LETTERS[b[p + 1]!] !== 0) return p + 1
    if (LETTERS[b[p + 2]!] !== 0) return p + 2
    if (LETTERS[b[p + 3]!] !== 0) return p + 3
  }
  while (p < end && LETTERS[b[p]!] === 0) p++
  return p
}

/**
 * Up to this size, one loop that checks and copies each byte is faster than checking all bytes and then calling `copy`.
 */
const COPIED_AT_ONCE = 160

/** Escapes [start, end) and writes the result to `to` from index `at` on. `to` must have room. Returns the end. */
export function escapeInto(to: Buffer, at: number, b: Buffer, start: number, end: number): number {
  let p = start
  if (end - start > COPIED_AT_ONCE) {
    p = plainEnd(b, start, end)
    at = writeBytes(b, start, p, to, at)
  }
  for (const stop = end - 3; p < stop; ) {
    const first = b[p]!
    const second = b[p + 1]!
    const third = b[p + 2]!
    const fourth = b[p + 3]!
    // Writes all four bytes, because a branch takes longer. Bytes from the first escape on are overwritten later.
    to[at] = first
    to[at + 1] = second
    to[at + 2] = third
    to[at + 3] = fourth
    if ((LETTERS[first]! | LETTERS[second]! | LETTERS[third]! | LETTERS[fourth]!) === 0) {
      p += 4
      at += 4
      continue
    }
    const plain = LETTERS[first] !== 0 ? 0 : LETTERS[second] !== 0 ? 1 : LETTERS[third] !== 0 ? 2 : 3
    p += plain + 1
    at = escapeByte(to, at + plain, b[p - 1]!)
  }
  for (; p < end; p++) {
    const byte = b[p]!
    if (LETTERS[byte] === 0) to[at++] = byte
    else at = escapeByte(to, at, byte)
  }
  return at
}

function escapeByte(to: Buffer, at: number, byte: number): number {
  const letter = LETTERS[byte]!
  to[at++] = BACKSLASH
  to[at++] = letter
  if (letter !== U) return at
  to[at++] = ZERO
  to[at++] = ZERO
  to[at++] = DIGITS[byte >> 4]!
  to[at++] = DIGITS[byte & 15]!
  return at
}

/** Up to this size, a loop is faster than a call of `copy`. */
const SHORT = 40

/** Copies [start, end) to `to` at `at`. Returns the end. */
export function writeBytes(b: Buffer, start: number, end: number, to: Buffer, at: number): number {
  if (end - start > SHORT) {
    b.copy(to, at, start, end)
    return at + end - start
  }
  for (const stop = end - 3; start < stop; start += 4, at += 4) {
    to[at] = b[start]!
    to[at + 1] = b[start + 1]!
    to[at + 2] = b[start + 2]!
    to[at + 3] = b[start + 3]!
  }
  while (start < end) to[at++] = b[start++]!
  return at
}

/** The byte that the letter of an escape stands for. */
const MEANS = new Uint8Array(256)
for (const [letter, byte] of Object.entries({ '"': 0x22, '\\': 0x5c, '/': 0x2f, b: 8, f: 12, n: 10, r: 13, t: 9 }))
  MEANS[letter.charCodeAt(0)] = byte

/**
 * Copies the content [start, end) of a valid JSON string to `to` at `at`, with its escapes resolved. The copy is never
 * longer than the content. Returns the end of the copy. Half a surrogate pair becomes U+FFFD.
 */
export function unescapeInto(to: Buffer, at: number, b: Buffer, start: number, end: number): number {
  for (let p = start; p < end; ) {
    const byte = b[p++]!
    if (byte !== BACKSLASH) {
      to[at++] = byte
      continue
    }
    const letter = b[p++]!
    if (letter !== U) {
      to[at++] = MEANS[letter]!
      continue
    }
    let from = p
    // Several escapes may form one character.
    for (p += 4; b[p] === BACKSLASH && b[p + 1] === U && p < end; p += 6);
    let text = ''
    for (; from < p; from += 6) text += String.fromCharCode(Number.parseInt(b.toString('latin1', from, from + 4), 16))
    at += to.write(text, at)
  }
  return at
}
