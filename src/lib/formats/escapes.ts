import { isUtf8 } from 'node:buffer'
import { BACKSLASH, isDigit, NINE, SPACE, ZERO } from './ascii.js'

const ESCAPE = 0x1b
const HASH = 0x23
const PERCENT = 0x25
const AMPERSAND = 0x26
const SEMICOLON = 0x3b
const AT = 0x40
const OPEN_BRACKET = 0x5b
const LOWER_U = 0x75
const LOWER_X = 0x78
/** The first byte in UTF-8 of a soft hyphen, of any other zero-width character, and of a wide character. */
const SOFT = 0xc2
const NARROW = 0xe2
const WIDE = 0xef

export const ESCAPE_BYTES: readonly number[] = [BACKSLASH, PERCENT, HASH, AMPERSAND, ESCAPE, SOFT, NARROW, WIDE]
const BEGINS_ESCAPE = new Uint8Array(256)
for (const byte of ESCAPE_BYTES) BEGINS_ESCAPE[byte] = 1

/** How often a text may be escaped. For example, the \n of a JSON string may be escaped again in a URL. */
export const MOST_ESCAPES = 3
const LONGEST_COLOR = 24
const LONGEST_REFERENCE = 8

/** The byte that a letter or quote after a backslash stands for; 0: not an escape. */
const BEHIND_BACKSLASH = new Uint8Array(256)
for (const [letter, meaning] of ['n\n', 'r\r', 't\t', 'b\b', 'f\f', 'v\v', '""', "''", '//']) {
  BEHIND_BACKSLASH[letter!.charCodeAt(0)] = meaning!.charCodeAt(0)
}

/** The meaning of the escape that was read last: a byte, NOTHING or, if `isCodePoint`, a code point. */
const NOTHING = -1
let meaning = 0
let isCodePoint = false
let isColor = false

/**
 * Returns where the escape at `p` ends; -1: there is no escape. Sets `meaning`. Escapes are: `%3D`, `%253D` and so on;
 * `\n`, `\"`, `\u003d`, `\x3d`, `\012` after any number of backslashes; the `#012` of rsyslog; `&#61;`; terminal
 * colors, which mean a space and set `isColor`; soft hyphens and zero-width spaces, which mean nothing; and the wide
 * digits, letters, dots, dashes and @ of East Asian texts.
 */
export function escapeEnd(b: Buffer, p: number, end: number): number {
  isCodePoint = false
  isColor = false
  // Does not read beyond the end.
  if (p + 3 > end) return b[p] === BACKSLASH ? backslashEnd(b, p, end) : -1
  switch (b[p]) {
    case PERCENT:
      return percentEnd(b, p + 1, end)
    case BACKSLASH:
      return backslashEnd(b, p, end)
    case HASH:
      return octalEnd(b, p + 1, end)
    case AMPERSAND:
      return referenceEnd(b, p, end)
    case SOFT:
      meaning = NOTHING
      return b[p + 1] === 0xad ? p + 2 : -1
    case NARROW:
      meaning = NOTHING
      return isNarrow(b[p + 1]! * 256 + b[p + 2]!) ? p + 3 : -1
    case WIDE:
      return wideEnd(b, p)
    default:
      return colorEnd(b, p, end)
  }
}

export function endOfBackslashes(b: Buffer, p: number, end: number): number {
  while (p < end && b[p] === BACKSLASH) p++
  return p
}

function percentEnd(b: Buffer, p: number, end: number): number {
  while (b[p] === 0x32 && b[p + 1] === 0x35 && isHex(b, p + 2, 2, end)) p += 2
  return hexEnd(b, p, 2, end)
}

function backslashEnd(b: Buffer, p: number, end: number): number {
  p = endOfBackslashes(b, p, end)
  if (p >= end) return -1
  if (b[p] === LOWER_X) return hexEnd(b, p + 1, 2, end)
  if (b[p] === LOWER_U) {
    isCodePoint = true
    return hexEnd(b, p + 1, 4, end)
  }
  if (BEHIND_BACKSLASH[b[p]!] === 0) return octalEnd(b, p, end)
  meaning = BEHIND_BACKSLASH[b[p]!]!
  return p + 1
}

function hexEnd(b: Buffer, p: number, length: number, end: number): number {
  if (!isHex(b, p, length, end)) return -1
  meaning = 0
  for (let i = 0; i < length; i++) meaning = meaning * 16 + hexValue(b[p + i]!)
  return isCodePoint && isSurrogate(meaning) ? -1 : p + length
}

function isHexDigit(byte: number): boolean {
  return isDigit(byte) || ((byte & 0xdf) >= 0x41 && (byte & 0xdf) <= 0x46)
}

function hexValue(digit: number): number {
  return digit <= NINE ? digit - ZERO : (digit & 0xdf) - 0x37
}

function isHex(b: Buffer, p: number, length: number, end: number): boolean {
  if (p + length > end) return false
  for (let i = 0; i < length; i++) if (!isHexDigit(b[p + i]!)) return false
  return true
}

/**
 * If `p` has the three octal digits of a control character, returns where they end; otherwise -1. Rejects other
 * numbers, because they may be part of a path.
 */
function octalEnd(b: Buffer, p: number, end: number): number {
  if (p + 3 > end || b[p] !== ZERO) return -1
  const high = b[p + 1]! - ZERO
  const low = b[p + 2]! - ZERO
  if (high < 0 || high > 3 || low < 0 || low > 7) return -1
  meaning = high * 8 + low
  return p + 3
}

/** Returns the end of the numeric character reference (HTML, XML) at `p`; -1: no reference. */
function referenceEnd(b: Buffer, p: number, end: number): number {
  if (b[p + 1] !== HASH) return -1
  const isInHex = b[p + 2] === LOWER_X
  const from = isInHex ? p + 3 : p + 2
  const last = Math.min(end, from + LONGEST_REFERENCE)
  let to = from
  while (to < last && (isInHex ? isHexDigit(b[to]!) : isDigit(b[to]!))) to++
  if (to === from || to >= end || b[to] !== SEMICOLON) return -1
  meaning = Number.parseInt(b.toString('latin1', from, to), isInHex ? 16 : 10)
  isCodePoint = true
  return meaning > 0x10ffff || isSurrogate(meaning) ? -1 : to + 1
}

function colorEnd(b: Buffer, p: number, end: number): number {
  if (b[p] !== ESCAPE || b[p + 1] !== OPEN_BRACKET) return -1
  const last = Math.min(end, p + LONGEST_COLOR)
  let to = p + 2
  while (to < last && b[to]! >= SPACE && b[to]! < 0x40) to++
  meaning = SPACE
  isColor = true
  return to < last ? to + 1 : -1
}

/** Whether a character with these second and third bytes is a zero-width space, joiner, direction mark or operator. */
function isNarrow(bytes: number): boolean {
  return (
    (bytes >= 0x808b && bytes <= 0x808f) || (bytes >= 0x80aa && bytes <= 0x80ae) || (bytes >= 0x81a0 && bytes <= 0x81a4)
  )
}

/**
 * Returns the end of the character at `p` if it is a byte order mark, or a full-width digit, letter, dot, dash or @;
 * otherwise -1.
 */
function wideEnd(b: Buffer, p: number): number {
  const [second, third] = [b[p + 1]!, b[p + 2]!]
  if (second === 0xbb && third === 0xbf) {
    meaning = NOTHING
    return p + 3
  }
  if (second !== 0xbc && second !== 0xbd) return -1
  meaning = (second - 0xbc) * 0x40 + third - 0x60
  const isDivider = meaning === 0x2d || meaning === 0x2e
  const isLetter = (meaning & 0xdf) >= 0x41 && (meaning & 0xdf) <= 0x5a
  return isDigit(meaning) || isLetter || isDivider || meaning === AT ? p + 3 : -1
}

function isSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdfff
}

/** A text without its escapes. Each call of `read` overwrites the previous result. */
export class Unescaped {
  text = Buffer.alloc(0)
  length = 0
  /** Whether terminal colors are removed instead of replaced by a space, for example within a highlighted word. */
  joins = false
  hasColors = false
  /** Where each escape ends in the original text, and where its replacement ends in `text`. */
  readonly #ends: number[] = []
  readonly #places: number[] = []
  #count = 0
  #start = 0

  /**
   * Removes one level of escapes from [start, end). With `isText`, if the result is not valid UTF-8, removes only
   * escapes of ASCII characters. Returns whether any escape was removed.
   */
  read(b: Buffer, start: number, end: number, isText: boolean): boolean {
    this.#read(b, start, end, 0x10ffff)
    if (isText && !isUtf8(this.text.subarray(0, this.length))) this.#read(b, start, end, 0x7f)
    return this.#count > 0
  }

  /** Keeps escapes of code points above `most`. */
  #read(b: Buffer, start: number, end: number, most: number): void {
    if (this.text.length < end - start) this.text = Buffer.allocUnsafeSlow(2 * (end - start))
    const { text } = this
    let length = 0
    this.#count = 0
    this.hasColors = false
    let copied = start
    for (let p = start; p < end; ) {
      if (BEGINS_ESCAPE[b[p]!] === 0) {
        p++
        continue
      }
      const to = escapeEnd(b, p, end)
      if (to < 0 || meaning > most) {
        // Inspects each run of backslashes only once.
        p = Math.max(p + 1, endOfBackslashes(b, p, end))
        continue
      }
      length += b.copy(text, length, copied, p)
      if (isColor) {
        this.hasColors = true
        if (this.joins) meaning = NOTHING
      }
      if (isCodePoint && meaning > 0x7f) length += text.write(String.fromCodePoint(meaning), length)
      else if (meaning !== NOTHING) text[length++] = meaning
      this.#ends[this.#count] = to
      this.#places[this.#count++] = length
      copied = p = to
    }
    length += b.copy(text, length, copied, end)
    this.#start = start
    this.length = length
  }

  /** Returns the position in the original text for position `p` of `text`. */
  placeOf(p: number): number {
    // The number of escapes before `p`.
    let low = 0
    for (let high = this.#count; low < high; ) {
      const middle = (low + high) >> 1
      if (this.#places[middle]! <= p) low = middle + 1
      else high = middle
    }
    return low === 0 ? this.#start + p : this.#ends[low - 1]! + p - this.#places[low - 1]!
  }
}

/** Returns the bytes [start, end) with all escapes resolved. */
export function plainBytes(b: Buffer, start: number, end: number): Buffer {
  let plain = b.subarray(start, end)
  for (let n = 0; n < MOST_ESCAPES; n++) {
    const level = new Unescaped()
    if (!level.read(plain, 0, plain.length, false)) break
    plain = level.text.subarray(0, level.length)
  }
  return plain
}

/** Replaces each secret in the text by `[hidden]`, also if written with escapes. */
export function hideSecrets(text: string, secrets: readonly string[]): string {
  const b = Buffer.from(text)
  const wanted = secrets.filter(secret => secret !== '').map(secret => Buffer.from(secret))
  const found = placesOf(b, wanted, MOST_ESCAPES).sort(([a], [b]) => a - b)
  let hidden = ''
  let at = 0
  for (const [start, end] of found) {
    if (start >= at) hidden += `${b.toString('utf8', at, start)}[hidden]`
    at = Math.max(at, end)
  }
  return hidden + b.toString('utf8', at)
}

/** Returns the places of secrets in the text, including secrets that are escaped up to `levels` times. */
function placesOf(b: Buffer, secrets: readonly Buffer[], levels: number): [start: number, end: number][] {
  const found: [number, number][] = []
  for (const secret of secrets) {
    for (let at = b.indexOf(secret); at >= 0; at = b.indexOf(secret, at + secret.length)) {
      found.push([at, at + secret.length])
    }
  }
  const plain = new Unescaped()
  if (levels === 0 || !plain.read(b, 0, b.length, false)) return found
  const behind = placesOf(plain.text.subarray(0, plain.length), secrets, levels - 1)
  return [...found, ...behind.map(([start, end]): [number, number] => [plain.placeOf(start), plain.placeOf(end)])]
}
