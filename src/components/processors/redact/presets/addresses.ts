import { APOSTROPHE, COLON, DASH, DOT, ZERO } from '../../../../lib/formats/ascii.js'
import type { Matches } from '../matches.js'
import { BASE64URL_BYTE, DIGIT_BYTE, endOf, HEX_BYTE, HOST_BYTE, is, LOCAL_BYTE, runStart, WORD_BYTE } from './bytes.js'
import { ipv4End } from './digits.js'

const [PERCENT, OPEN_BRACKET, CLOSE_BRACKET] = [0x25, 0x5b, 0x5d]

/** Maximum bytes searched for a name before a colon. */
const LONGEST_NAME = 32
/** Maximum bytes searched before an @. */
const LONGEST_LOCAL = 256

/** Finds an email address whose @ is at `p`. Returns where to continue. */
export function findEmail(b: Buffer, p: number, start: number, end: number, out: Matches, rule: number): number {
  const after = p + 1
  let from = runStart(b, p, Math.max(start, p - LONGEST_LOCAL), LOCAL_BYTE)
  while (from < p && (b[from] === APOSTROPHE || b[from] === DOT)) from++
  if (from === p) return after
  const to = b[after] === OPEN_BRACKET ? literalEnd(b, after, end) : domainEnd(b, after, end)
  if (to < 0) return after
  out.add(from, to, rule)
  return to
}

/** Returns the end of the IP address in brackets at `p`, or -1 if `p` has no such address. */
function literalEnd(b: Buffer, p: number, end: number): number {
  const last = Math.min(end, p + 64)
  let to = p + 1
  while (to < last && b[to] !== CLOSE_BRACKET) to++
  return to < last && to > p + 2 ? to + 1 : -1
}

/**
 * Returns the end of the domain name at `p`, or -1 if no domain name is at `p`. A domain name has at least one dot, and
 * its last part does not begin with a digit.
 */
function domainEnd(b: Buffer, p: number, end: number): number {
  let found = -1
  for (let part = 0; ; part++) {
    let to = endOf(b, p, end, HOST_BYTE)
    while (to > p && b[to - 1] === DASH) to--
    if (to === p) return found
    if (part > 0 && to - p > 1 && !is(b[p], DIGIT_BYTE)) found = to
    if (to >= end || b[to] !== DOT) return found
    p = to + 1
  }
}

const isHex = (byte: number | undefined) => is(byte, HEX_BYTE)

/**
 * Finds a MAC address whose first divider is at `p`. It has six or eight bytes as pairs of digits (00:1a:2b:3c:4d:5e),
 * or six bytes as groups of four (001a.2b3c.4d5e). Returns where to continue, or -1 if it is not an address.
 */
export function findMac(b: Buffer, p: number, start: number, end: number, out: Matches, rule: number): number {
  const length = startsWithGroup(b, p, start, 4) ? 4 : 2
  const from = p - length
  if (length === 2 && !startsWithGroup(b, p, start, 2)) return -1
  if (from > start && (is(b[from - 1], WORD_BYTE) || b[from - 1] === b[p]) && !isBehindName(b, from, start)) return -1
  const to = groupsEnd(b, p, end, length)
  const digits = ((to - from + 1) / (length + 1)) * length
  if (to < 0 || (digits !== 12 && (digits !== 16 || length === 4))) return -1
  if (length === 4 && (b[p] === COLON || isNumber(b, from, to))) return -1
  out.add(from, to, rule)
  return to
}

function startsWithGroup(b: Buffer, p: number, start: number, length: number): boolean {
  if (p - length < start) return false
  for (let i = 1; i <= length; i++) if (!isHex(b[p - i])) return false
  return true
}

/**
 * Returns the end of the groups of `length` digits after `p`. Each group follows the same divider as at `p`. Returns -1
 * if a word continues after the groups.
 */
function groupsEnd(b: Buffer, p: number, end: number, length: number): number {
  const divider = b[p]
  while (p < end && b[p] === divider && endOf(b, p + 1, Math.min(end, p + 1 + length), HEX_BYTE) === p + 1 + length) {
    p += 1 + length
  }
  return p < end && (is(b[p], WORD_BYTE) || (b[p] === divider && p + 1 < end && is(b[p + 1], WORD_BYTE))) ? -1 : p
}

/** Whether a name and a colon are before `p`, as in `addr:`. A hexadecimal number is not a name. */
function isBehindName(b: Buffer, p: number, start: number): boolean {
  if (b[p - 1] !== COLON) return false
  const from = runStart(b, p - 1, Math.max(start, p - LONGEST_NAME), BASE64URL_BYTE)
  return endOf(b, from, p - 1, HEX_BYTE) < p - 1
}

/** Whether groups of digits look like a version or a date, because they have no letters, and no zero at the start. */
function isNumber(b: Buffer, from: number, to: number): boolean {
  if (b[from] === ZERO) return false
  for (let p = from; p < to; p++) if (is(b[p], WORD_BYTE) && !is(b[p], DIGIT_BYTE)) return false
  return true
}

/** Finds an IPv6 address and its zone. Its first colon is at `p`. Returns where to continue. */
export function findIpv6(b: Buffer, p: number, start: number, end: number, out: Matches, rule: number): number {
  const from = runStart(b, p, Math.max(start, p - 5), HEX_BYTE)
  if (p - from > 4) return p + 1
  if (from > start && (is(b[from - 1], WORD_BYTE) || b[from - 1] === COLON) && !isBehindName(b, from, start))
    return p + 1
  const to = ipv6End(b, from, end)
  if (to < 0) return p + 1
  out.add(from, to, rule)
  return to
}

function ipv6End(b: Buffer, p: number, end: number): number {
  let groups = 0
  let isShort = false
  for (;;) {
    const from = p
    p = endOf(b, p, Math.min(end, p + 5), HEX_BYTE)
    if (p - from > 4) return -1
    if (p > from) groups++
    if (p < end && b[p] === DOT && p > from) {
      const to = ipv4End(b, from, end)
      if (to < 0) break
      groups++
      p = to
      break
    }
    if (p >= end || b[p] !== COLON) break
    if (p + 1 < end && b[p + 1] === COLON) {
      if (isShort) break
      isShort = true
      p += 2
      if (p >= end || !isHex(b[p])) break
    } else if (groups === 0 || groups === 8 || p + 1 >= end || !isHex(b[p + 1])) break
    else p++
  }
  if (isShort ? groups === 0 || groups > 7 : groups !== 8) return -1
  if (p < end && is(b[p], WORD_BYTE)) return -1
  if (p + 1 < end && b[p] === COLON && (b[p + 1] === COLON || isHex(b[p + 1]))) return -1
  if (p + 1 < end && b[p] === PERCENT && is(b[p + 1], WORD_BYTE)) p = endOf(b, p + 1, end, WORD_BYTE)
  return p
}
