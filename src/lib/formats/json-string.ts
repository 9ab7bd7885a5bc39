/** Writes JSON strings as JSON.stringify does, from bytes to bytes. */

/** Receives bytes in the order of the calls. It copies less than 16 KiB, and may keep a slice of more. */
export interface ByteSink {
  add(source: Buffer, start: number, end: number): void
}

const BACKSLASH = 0x5c
const U = 0x75
const ZERO = 0x30
/** For each byte what follows the backslash, `u` with four digits; 0: the byte is written as it is. */
const LETTERS = Uint8Array.from({ length: 256 }, (_, byte) => {
  const [backslash, letter] = Buffer.from(JSON.stringify(String.fromCharCode(byte)).slice(1, -1))
  return byte < 0x80 && backslash === BACKSLASH ? letter! : 0
})
const DIGITS = Buffer.from('0123456789abcdef')

/** Bytes of text that are escaped at a time, each to six at most: little enough to be copied by every sink. */
const AT_ONCE = 2048
const escaped = Buffer.allocUnsafeSlow(AT_ONCE * 6)

/** Writes the UTF-8 text [start, end) as within the quotes of a JSON string. */
export function addEscaped(to: ByteSink, b: Buffer, start: number, end: number): void {
  let plain = start
  while (plain < end && LETTERS[b[plain]!] === 0) plain++
  if (plain > start) to.add(b, start, plain)
  for (let from = plain; from < end; from += AT_ONCE) {
    to.add(escaped, 0, escapeInto(b, from, Math.min(from + AT_ONCE, end)))
  }
}

/** Escapes [start, end) into `escaped`. Returns its end. */
function escapeInto(b: Buffer, start: number, end: number): number {
  let at = 0
  for (let p = start; p < end; p++) {
    const byte = b[p]!
    const letter = LETTERS[byte]!
    if (letter === 0) {
      escaped[at++] = byte
      continue
    }
    escaped[at++] = BACKSLASH
    escaped[at++] = letter
    if (letter !== U) continue
    escaped[at++] = ZERO
    escaped[at++] = ZERO
    escaped[at++] = DIGITS[byte >> 4]!
    escaped[at++] = DIGITS[byte & 15]!
  }
  return at
}

/** Up to this size a loop is faster than a call of `copy`. */
const SHORT = 24

/** Copies [start, end) to `to` at `at`. Returns the end. */
export function writeBytes(b: Buffer, start: number, end: number, to: Buffer, at: number): number {
  const size = end - start
  if (size > SHORT) b.copy(to, at, start, end)
  else for (let i = 0; i < size; i++) to[at + i] = b[start + i]!
  return at + size
}
