import {
  APOSTROPHE,
  BACKSLASH,
  COMMA,
  CR,
  DASH,
  DOT,
  EQUALS,
  LF,
  PLUS,
  QUOTE,
  SPACE,
  TAB,
} from '../../../../lib/formats/ascii.js'
import { escapeEnd } from '../../../../lib/formats/escapes.js'
import type { Matches } from '../matches.js'
import { BASE64URL_BYTE, endOf, is, isExactAt, isTextAt, TOKEN_BYTE, UPPER_BYTE, WORD_BYTE } from './bytes.js'
import { hasDigit } from './digits.js'
import { KEY_MARKS, SECRET_NAMES } from './presets.js'

const [AMPERSAND, UPPER_K, UPPER_Z, UNDERSCORE] = [0x26, 0x4b, 0x5a, 0x5f]
const DIVIDERS = Buffer.from(' \t+"\':=>')

/**
 * Finds a JSON Web Token, at `p` is its J: at least three parts that begin with `eyJ`; the second may be empty. Returns
 * where to continue.
 */
export function findJwt(b: Buffer, p: number, start: number, end: number, out: Matches, rule: number): number {
  const from = p - 2
  if (from < start || b[p - 1] !== 0x79 || b[from] !== 0x65) return p + 1
  if (from > start && is(b[from - 1], WORD_BYTE)) return p + 1
  let to = endOf(b, p, end, BASE64URL_BYTE)
  let parts = 1
  while (to + 1 < end && b[to] === DOT && (is(b[to + 1], BASE64URL_BYTE) || parts <= 2)) {
    to = endOf(b, to + 1, end, BASE64URL_BYTE)
    parts++
  }
  // A token that is not signed ends with a dot.
  if (parts === 2 && to < end && b[to] === DOT) to++
  else if (parts < 3) return p + 1
  out.add(from, to, rule)
  return to
}

/** Shorter tokens may be ordinary words. */
const LEAST_TOKEN = 20

/** Finds the token after Bearer or Basic at `p`, or after an Authorization whose Z is at `p`. Returns where to continue. */
export function findBearer(b: Buffer, p: number, start: number, end: number, out: Matches, rule: number): number {
  if ((b[p]! & 0xdf) === UPPER_Z) return findNamed(b, p, start, end, out, rule, HEADER_NAMES)
  if (p > start && is(b[p - 1], WORD_BYTE)) return p + 1
  const length = schemeLength(b, p, end)
  if (length === 0) return p + 1
  const from = valueStart(b, p + length, end)
  const to = endOf(b, from, end, TOKEN_BYTE)
  if (from === p + length || to - from < 6) return p + length
  const mayBeWords = to - from < LEAST_TOKEN && areWords(b, from, to)
  if (mayBeWords && !(length === 5 && isUser(b, from, to))) return p + length
  out.add(from, to, rule)
  return to
}

/** The length of the word Bearer or Basic at `p`; 0: another word. */
function schemeLength(b: Buffer, p: number, end: number): number {
  return isTextAt(b, p, end, 'bearer') ? 6 : isTextAt(b, p, end, 'basic') ? 5 : 0
}

/** Whether [from, to) is the base64 of `user:password`. */
function isUser(b: Buffer, from: number, to: number): boolean {
  return /^[ -~]*:[ -~]*$/.test(Buffer.from(b.toString('latin1', from, to), 'base64').toString('latin1'))
}

/** Whether [from, to) has only letters. If `from` follows a + (a space in forms), a + may also separate words. */
function areWords(b: Buffer, from: number, to: number): boolean {
  const isForm = b[from - 1] === PLUS
  let p = from
  while (p < to && is(b[p], WORD_BYTE) !== (isForm && b[p] === PLUS)) p++
  return p === to && !hasDigit(b, from, to)
}

/** Skips at most eight characters between a name and its value. */
function valueStart(b: Buffer, p: number, end: number): number {
  const last = Math.min(end, p + 8)
  while (p < last && (DIVIDERS.includes(b[p]!) || isFold(b, p))) p++
  return p
}

/** Whether a line that goes on in the next one, which begins with white space, ends at `p`. */
function isFold(b: Buffer, p: number): boolean {
  return b[p] === CR ? b[p + 1] === LF : b[p] === LF && (b[p + 1] === SPACE || b[p + 1] === TAB)
}

/** A space, a tab, or the + that stands for a space in forms. */
function isSpace(byte: number): boolean {
  return byte === SPACE || byte === TAB || byte === PLUS
}

interface Key {
  readonly text: string
  readonly anchor: number
  readonly least: number
  /** The classes of the characters after `text`. */
  readonly bits: number
  /** Whether dots may stand between the characters after `text`. */
  readonly hasParts: boolean
  readonly needsDigit: boolean
}

const CLASSES = {
  capitals: UPPER_BYTE,
  word: WORD_BYTE,
  base64url: BASE64URL_BYTE,
  parts: BASE64URL_BYTE,
  token: TOKEN_BYTE,
}

const KEYS: readonly Key[] = KEY_MARKS.flatMap(({ marks, least, of = 'base64url', anchor, needsDigit = false }) =>
  marks.split(' ').map(text => ({
    text,
    anchor: anchor ?? text.search(/[-_.]/),
    least,
    bits: CLASSES[of],
    hasParts: of === 'parts',
    needsDigit,
  })),
)

/** A digit is searched for in at most this many characters. A longer run without a digit consists of words. */
const MOST_WORDS = 64

/** Names in lower case, each with the index of the character that the scanner looks for. */
type Names = readonly (readonly [name: string, anchor: number])[]
export const KEY_NAMES: Names = SECRET_NAMES.map(name => [name.toLowerCase(), name.search(/[_K]/)])
export const HEADER_NAMES: Names = [['authorization', 7]]

/** Keys by their anchor byte, then by the byte before the anchor. */
const byAnchor: (Key[] | undefined)[][] = Array.from({ length: 256 }, () => [])
for (const key of KEYS) {
  const keysOfByte = byAnchor[key.text.charCodeAt(key.anchor)]!
  const before = key.text.charCodeAt(key.anchor - 1)
  keysOfByte[before] = [...(keysOfByte[before] ?? []), key]
}

export const KEY_ANCHORS: readonly number[] = [
  ...new Set([...KEYS.map(({ text, anchor }) => text.charCodeAt(anchor)), UNDERSCORE, UPPER_K]),
]

/** Finds a key with an anchor at `p`. Returns where to continue. */
export function findKey(b: Buffer, p: number, start: number, end: number, out: Matches, rule: number): number {
  const found = p > start ? byAnchor[b[p]!]![b[p - 1]!] : undefined
  for (let i = 0; found && i < found.length; i++) {
    const key = found[i]!
    const from = p - key.anchor
    if (from < start || !isExactAt(b, from, end, key.text) || (from > start && is(b[from - 1], WORD_BYTE))) continue
    const body = from + key.text.length
    if (key.needsDigit && !hasDigit(b, body, endOf(b, body, Math.min(end, body + MOST_WORDS), key.bits))) continue
    const to = keyEnd(b, body, end, key)
    if (to - body < key.least) continue
    out.add(from, to, rule)
    return to
  }
  return b[p] === UNDERSCORE || b[p] === UPPER_K ? findNamed(b, p, start, end, out, rule, KEY_NAMES) : p + 1
}

/** `p` is after the mark of a key. Returns the end of the key, or `p` if the letter there cannot follow the key. */
function keyEnd(b: Buffer, p: number, end: number, { bits, hasParts }: Key): number {
  let to = endOf(b, p, end, bits)
  while (hasParts && to + 1 < end && b[to] === DOT && is(b[to + 1], bits)) to = endOf(b, to + 1, end, bits)
  return bits === UPPER_BYTE && to < end && is(b[to], WORD_BYTE) ? p : to
}

/** What is between a name and its value, with the quote before the value: at most 64 characters. */
const ASSIGNMENT = /^["']?[\t +]*(?:[:=]>?|>)(?:[\t +[]|\r?\n[\t ])*(?:b?["'])?/
/** What is between two items of a list. */
const NEXT_ITEM = /^["']?[\t ,]+(?:b?["'])?/

/** Finds the value after a name. The anchor of the name is at `p`. Returns where to continue. */
function findNamed(b: Buffer, p: number, start: number, end: number, out: Matches, rule: number, names: Names): number {
  const isHeader = names === HEADER_NAMES
  for (const [text, anchor] of names) {
    if (!isNameAt(b, p - anchor, start, end, text)) continue
    const after = p - anchor + text.length
    const between = ASSIGNMENT.exec(b.toString('latin1', after, Math.min(end, after + 64)))?.[0]
    if (isHeader && !between) continue
    let value = between ? after + between.length : valueStart(b, after, end)
    // In a URL or form, an & is behind the value.
    const isInUrl = between?.includes('=') || /[=?&+]/.test(String.fromCharCode(b[p - anchor - 1] ?? 0))
    for (let known = p + 1; ; ) {
      const from = isHeader ? credentialsStart(b, value, end) : value
      const to = isHeader
        ? credentialsEnd(b, from, end, value, isInUrl ? AMPERSAND : 0)
        : endOf(b, from, end, TOKEN_BYTE)
      if (to - from >= (between ? 1 : LEAST_TOKEN)) out.add(from, (known = to), rule)
      const next = between?.includes('[') && NEXT_ITEM.exec(b.toString('latin1', to, Math.min(end, to + 64)))?.[0]
      if (!next) return known
      value = to + next.length
    }
  }
  return p + 1
}

/** Whether the name is at `p`, and not as the end of a longer word. `proxyAuthorization` consists of two words. */
function isNameAt(b: Buffer, p: number, start: number, end: number, name: string): boolean {
  if (p < start || !isTextAt(b, p, end, name)) return false
  return (
    p === start ||
    !is(b[p - 1], WORD_BYTE) ||
    !is(b[p], WORD_BYTE) ||
    (is(b[p], UPPER_BYTE) && !is(b[p - 1], UPPER_BYTE))
  )
}

/** Skips the word Bearer or Basic at `p`. */
export function credentialsStart(b: Buffer, p: number, end: number): number {
  const to = p + schemeLength(b, p, end)
  return to > p && to < end && (isSpace(b[to]!) || isFold(b, to)) ? valueStart(b, to, end) : p
}

const LONGEST_SCHEME = 24

/**
 * Returns the end of the credentials at `p`. After a quote, they end at the next one. Elsewhere they are one word, or
 * two if the first may be a scheme, and the parameters that follow, as in `Digest username="a", uri="/"`.
 */
function credentialsEnd(b: Buffer, p: number, end: number, value: number, last: number): number {
  const before = b[value - 1]!
  if (before === QUOTE || before === APOSTROPHE) return wordEnd(b, p, end, before)
  const first = wordEnd(b, p, end, last)
  if (p > value || first - p > LONGEST_SCHEME || endOf(b, p, first, BASE64URL_BYTE) < first) return first
  let to = first
  for (let divider = SPACE; to < end && (b[to] === divider || isFold(b, to)); divider = COMMA) {
    let from = to + 1
    while (from < end && (b[from] === SPACE || b[from] === TAB || isFold(b, from))) from++
    const next = wordEnd(b, from, end, last)
    const isParameter = /=[^=]/.test(b.toString('latin1', from, next))
    // In `authorization=a b=c`, b is another field.
    if (isParameter ? divider === SPACE && before === EQUALS && b[next] !== COMMA : divider === COMMA) return to
    to = next
    if (!isParameter) return to
  }
  return to
}

const WORD_ENDS = Buffer.from(' "\'()<>[]{},\\')
/** What follows the quote at the end of a text, which may be after an equals sign, too. */
const BEHIND_TEXTS = Buffer.from('\t ,:;)]}>')

/** Returns the end of the word at `p`; if `last` is a quote, of the text before it. Both may have quoted parameters. */
function wordEnd(b: Buffer, p: number, end: number, last: number): number {
  const isText = last === QUOTE || last === APOSTROPHE
  for (; p < end && b[p]! >= SPACE; p++) {
    const byte = b[p]!
    if (byte === QUOTE && b[p - 1] === EQUALS && p + 1 < end && !BEHIND_TEXTS.includes(b[p + 1]!)) {
      while (++p < end && b[p] !== QUOTE);
    } else if (byte === last || (isText ? byte === QUOTE : WORD_ENDS.includes(byte) || escapeEnd(b, p, end) > 0)) break
    else if (isText && byte === BACKSLASH) p++
  }
  return Math.min(p, end)
}

/** Whether the name in quotes that ends at `end` ends with one of the names. */
export function endsWithName(b: Buffer, end: number, names: Names): boolean {
  return names.some(([text]) => isNameAt(b, end - 1 - text.length, 0, end - 1, text))
}

const BEGIN = '-----begin '
const END = '-----end '
const KIND = 'private key'
/** KIND is searched for in at most this many bytes. Example: RSA PRIVATE KEY. */
const LONGEST_KIND = 48

/**
 * Finds a private key whose first or last line is at `p`. A key without a last line extends to the end of the value. A
 * key without a first line begins at the start of the value. Returns where to continue.
 */
export function findPrivateKey(b: Buffer, p: number, start: number, end: number, out: Matches, rule: number): number {
  const dashes = endOfDashes(b, p, end)
  if (dashes - p < 5) return dashes
  const isBegin = isTextAt(b, dashes - 5, end, BEGIN)
  if (!isBegin && !isTextAt(b, dashes - 5, end, END)) return dashes
  const line = markEnd(b, dashes, end)
  if (line < 0) return dashes
  if (!isBegin) {
    out.add(start, line, rule)
    return line
  }
  let at = line
  while (at < end && !(b[at] === DASH && isTextAt(b, at, end, END))) at++
  const last = at < end ? markEnd(b, at + END.length, end) : -1
  const to = last < 0 ? end : last
  out.add(p, to, rule)
  return to
}

/** `p` is in the first or last line of a key. Returns the line's end, or -1 if the line names no private key. */
function markEnd(b: Buffer, p: number, end: number): number {
  const last = Math.min(end, p + LONGEST_KIND)
  for (; p < last && b[p] !== LF && b[p] !== DASH; p++) {
    if (!isTextAt(b, p, end, KIND)) continue
    p += KIND.length
    while (p < last && b[p] !== DASH && b[p] !== LF) p++
    return endOfDashes(b, p, end)
  }
  return -1
}

function endOfDashes(b: Buffer, p: number, end: number): number {
  while (p < end && b[p] === DASH) p++
  return p
}
