import type { Matches } from '../matches.js'
import { BASE64URL, DIGIT, endOf, is, isExactAt, isTextAt, TOKEN, WORD } from './bytes.js'

const SPACE = 0x20
const TAB = 0x09
const LF = 0x0a
const QUOTE = 0x22
const APOSTROPHE = 0x27
const DASH = 0x2d
const DOT = 0x2e
const COLON = 0x3a
const EQUALS = 0x3d

/** A token of at least three parts, whose first begins with the `eyJ` that ends at `p`. Returns where to go on. */
export function findJwt(b: Buffer, p: number, start: number, end: number, out: Matches, rule: number): number {
  const from = p - 2
  if (from < start || b[p - 1] !== 0x79 || b[from] !== 0x65) return p + 1
  if (from > start && is(b[from - 1], BASE64URL)) return p + 1
  let to = endOf(b, p, end, BASE64URL)
  let parts = 1
  while (to + 1 < end && b[to] === DOT && (is(b[to + 1], BASE64URL) || parts === 2)) {
    to = endOf(b, to + 1, end, BASE64URL)
    parts++
  }
  // A token that is not signed ends with a dot.
  if (parts === 2 && to < end && b[to] === DOT) to++
  else if (parts < 3) return p + 1
  out.add(from, to, rule)
  return to
}

/** Shorter ones may be ordinary words. */
const LEAST_TOKEN = 20

/** What is behind the word Bearer or Basic at `p`. Returns where to go on. */
export function findBearer(b: Buffer, p: number, start: number, end: number, out: Matches, rule: number): number {
  if (p > start && is(b[p - 1], WORD)) return p + 1
  const length = isTextAt(b, p, end, 'bearer') ? 6 : isTextAt(b, p, end, 'basic') ? 5 : 0
  if (length === 0) return p + 1
  const from = valueStart(b, p + length, end)
  const to = endOf(b, from, end, TOKEN)
  if (from === p + length || to - from < 6) return p + length
  if (to - from < LEAST_TOKEN && endOf(b, from, to, WORD) === to && !hasDigit(b, from, to)) return p + length
  out.add(from, to, rule)
  return to
}

function hasDigit(b: Buffer, p: number, end: number): boolean {
  for (; p < end; p++) if (is(b[p], DIGIT)) return true
  return false
}

/** Skips at most eight of the characters between a name and its value. */
function valueStart(b: Buffer, p: number, end: number): number {
  const last = Math.min(end, p + 8)
  while (p < last && isDivider(b[p]!)) p++
  return p
}

function isDivider(byte: number): boolean {
  return byte === SPACE || byte === TAB || byte === QUOTE || byte === APOSTROPHE || byte === COLON || byte === EQUALS
}

interface Prefix {
  readonly text: string
  /** The byte of the prefix that is rarest in texts, by which it is found. */
  readonly anchor: number
  /** How many characters follow at least, and of which classes. */
  readonly least: number
  readonly bits: number
}

const prefix = (text: string, anchor: number, least: number, bits = BASE64URL): Prefix => ({
  text,
  anchor,
  least,
  bits,
})

/** Keys that services mark by how they begin. */
const PREFIXES: readonly Prefix[] = [
  ...['AKIA', 'ASIA', 'ABIA', 'ACCA', 'AROA', 'AIDA'].map(text => prefix(text, 3, 16, WORD)),
  prefix('AIza', 1, 30),
  ...['ghp_', 'gho_', 'ghu_', 'ghs_', 'ghr_'].map(text => prefix(text, 3, 30, WORD)),
  prefix('github_pat_', 6, 22),
  prefix('glpat-', 5, 16),
  ...['xoxa-', 'xoxb-', 'xoxe-', 'xoxo-', 'xoxp-', 'xoxr-', 'xoxs-', 'xapp-'].map(text => prefix(text, 4, 10)),
  ...['sk_live_', 'sk_test_', 'rk_live_', 'rk_test_'].map(text => prefix(text, 2, 10)),
  prefix('whsec_', 5, 16, TOKEN),
  prefix('sk-', 2, 20),
  prefix('npm_', 3, 30, WORD),
  prefix('pypi-', 4, 16),
  prefix('hf_', 2, 30, WORD),
  prefix('SG.', 1, 40, TOKEN),
  prefix('shpat_', 5, 32, WORD),
  prefix('dop_v1_', 3, 60, WORD),
]

const byAnchor = new Map<number, Prefix[]>()
for (const one of PREFIXES) {
  const byte = one.text.charCodeAt(one.anchor)
  byAnchor.set(byte, [...(byAnchor.get(byte) ?? []), one])
}

/** The bytes by which keys are found. */
export const KEY_ANCHORS: readonly number[] = [...byAnchor.keys()]

const SECRET_NAME = 'aws_secret_access_key'
const SECRET_ANCHOR = SECRET_NAME.lastIndexOf('_')

/** A key with an anchor at `p`. Returns where to go on. */
export function findKey(b: Buffer, p: number, start: number, end: number, out: Matches, rule: number): number {
  const prefixes = byAnchor.get(b[p]!)!
  for (let i = 0; i < prefixes.length; i++) {
    const { text, anchor, least, bits } = prefixes[i]!
    const from = p - anchor
    if (from < start || !isExactAt(b, from, end, text) || (from > start && is(b[from - 1], WORD))) continue
    const to = endOf(b, from + text.length, end, bits)
    if (to - from - text.length < least) continue
    out.add(from, to, rule)
    return to
  }
  const name = p - SECRET_ANCHOR
  if (name < start || !isTextAt(b, name, end, SECRET_NAME)) return p + 1
  const from = valueStart(b, name + SECRET_NAME.length, end)
  const to = endOf(b, from, end, TOKEN)
  if (to - from < LEAST_TOKEN) return p + 1
  out.add(from, to, rule)
  return to
}

const BEGIN = '-----begin '
const END = '-----end '
const KIND = 'private key'
/** What may be before KIND, as in RSA PRIVATE KEY, and behind it. */
const LONGEST_KIND = 48

/**
 * A private key with its first or last line at `p`. Without its last line it reaches to the end of the value, and
 * without its first one from the beginning. Returns where to go on.
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

/** The end of a first or last line, if it names a private key. */
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
