import { BACKSLASH, CLOSE_ARRAY, CLOSE_OBJECT, COMMA, DASH, DOT, NINE, ZERO } from '../../../../lib/formats/ascii.js'
import { ESCAPE_BYTES, endOfBackslashes, escapeEnd } from '../../../../lib/formats/escapes.js'
import type { Matches } from '../matches.js'
import { findEmail, findIpv6, findMac } from './addresses.js'
import { DIGIT_BYTE, endOf, is, WORD_BYTE } from './bytes.js'
import { americanEnd, cardEnd, ibanEnd, internationalEnd, ipv4End, isBehindTime, mayDivide } from './digits.js'
import { PRESETS, type Preset } from './presets.js'
import { findBearer, findJwt, findKey, findPrivateKey, KEY_ANCHORS } from './tokens.js'

/** Kinds of bytes. The kind says what the scanner searches for around a byte. */
const NUMBER = 1
const AT = 2
const ADDRESS = 3
const DIVIDER = 4
const JWT = 5
const BEARER = 6
const KEY = 7
const PLUS = 8
const ESCAPE = 9

const LEAST_CARD = 12
const SIGN = 0x2b
const E = 0x45
const OPEN = 0x28
const CLOSE = 0x29

/**
 * Finds the matches of presets in one pass over the bytes of a value. Each preset only searches around certain bytes,
 * which are rare in texts.
 */
export class PresetScanner {
  hasBackslash = false
  /** Positions of the first and the last escape in the scanned bytes. Without an escape, `lastEscape` is -1. */
  firstEscape = 0
  lastEscape = -1
  hasExponent = false
  readonly #kinds = new Uint8Array(256)
  /** Number of the rule of each preset, or -1 if the preset is not used. */
  readonly #rules: Readonly<Record<Preset, number>>

  /** The index of a preset in `presets` is the number of its rule. */
  constructor(presets: readonly Preset[]) {
    const rules = Object.fromEntries(PRESETS.map(name => [name, presets.indexOf(name)])) as Record<Preset, number>
    this.#rules = rules
    const set = (kind: number, bytes: string | readonly number[]) => {
      for (const byte of typeof bytes === 'string' ? Buffer.from(bytes) : bytes) this.#kinds[byte] = kind
    }
    if (rules.api_key >= 0) set(KEY, KEY_ANCHORS)
    if (rules.card >= 0 || rules.ipv4 >= 0 || rules.phone >= 0 || rules.iban >= 0) set(NUMBER, '0123456789')
    if (rules.email >= 0) set(AT, '@')
    if (rules.ipv6 >= 0 || rules.mac >= 0) set(ADDRESS, ':')
    if (rules.private_key >= 0 || rules.mac >= 0 || rules.api_key >= 0) set(DIVIDER, '-')
    if (rules.mac >= 0 || rules.api_key >= 0) set(DIVIDER, '.')
    if (rules.jwt >= 0) set(JWT, 'J')
    if (rules.bearer >= 0) set(BEARER, 'BbZz')
    if (rules.phone >= 0) set(PLUS, '+')
    set(ESCAPE, ESCAPE_BYTES)
  }

  /** Finds all matches in the bytes [start, end). They may overlap. */
  scan(b: Buffer, start: number, end: number, out: Matches): void {
    this.hasBackslash = false
    this.lastEscape = -1
    this.hasExponent = false
    const kinds = this.#kinds
    for (let p = start; ; ) {
      while (p < end && kinds[b[p]!] === 0) p++
      if (p >= end) return
      const kind = kinds[b[p]!]!
      p = kind === NUMBER ? this.#number(b, p, start, end, out) : this.#find(kind, b, p, start, end, out)
    }
  }

  /** Searches for a match around the byte at `p`. Returns where to continue. */
  #find(kind: number, b: Buffer, p: number, start: number, end: number, out: Matches): number {
    const rules = this.#rules
    switch (kind) {
      case AT:
        return findEmail(b, p, start, end, out, rules.email)
      case ADDRESS:
        return this.#address(b, p, start, end, out)
      case DIVIDER:
        return this.#divider(b, p, start, end, out)
      case JWT:
        return findJwt(b, p, start, end, out, rules.jwt)
      case BEARER:
        return findBearer(b, p, start, end, out, rules.bearer)
      case KEY:
        return findKey(b, p, start, end, out, rules.api_key)
      case PLUS: {
        if (p > start && is(b[p - 1], WORD_BYTE)) return p + 1
        const to = internationalEnd(b, p + 1, end, isBehindTime(b, p, start))
        if (to > 0) out.add(p, to, rules.phone)
        return p + 1
      }
      default:
        return this.#escape(b, p, end)
    }
  }

  /** `p` is at the first digit of a number. */
  #number(b: Buffer, p: number, start: number, end: number, out: Matches): number {
    let to = p + 1
    while (to < end && b[to]! <= NINE && b[to]! >= ZERO) to++
    const length = to - p
    const next = to < end ? b[to]! : 0
    if ((next & 0xdf) === E && isExponent(b, to + 1, end)) this.hasExponent = true
    const { card, ipv4, iban, phone } = this.#rules
    if (ipv4 >= 0 && next === DOT && length <= 3 && !isBehindDot(b, p, start)) {
      const found = ipv4End(b, p, end)
      if (found > 0) {
        out.add(p, found, ipv4)
        return found
      }
    }
    // Most numbers in logs are neither long nor in groups.
    if (card >= 0 && (length >= LEAST_CARD || mayDivide(next))) {
      const found = cardEnd(b, p, start, end, length)
      if (found > 0) out.add(p, found, card)
    }
    if (iban >= 0 && length >= 2 && p - 2 >= start && is(b[p - 1], WORD_BYTE) && is(b[p - 2], WORD_BYTE)) {
      const found = p - 3 >= start && is(b[p - 3], WORD_BYTE) ? -1 : ibanEnd(b, p, end)
      if (found > 0) out.add(p - 2, found, iban)
    }
    if (phone >= 0 && length === 3 && !(p > start && is(b[p - 1], WORD_BYTE))) {
      const found = americanEnd(b, p, end)
      if (found > 0) out.add(p > start && b[p - 1] === OPEN && b[to] === CLOSE ? p - 1 : p, found, phone)
    }
    return to
  }

  #address(b: Buffer, p: number, start: number, end: number, out: Matches): number {
    const { mac, ipv6 } = this.#rules
    const to = mac >= 0 ? findMac(b, p, start, end, out, mac) : -1
    if (to >= 0) return to
    return ipv6 >= 0 ? findIpv6(b, p, start, end, out, ipv6) : p + 1
  }

  #divider(b: Buffer, p: number, start: number, end: number, out: Matches): number {
    const { mac, private_key, api_key } = this.#rules
    if (mac >= 0) {
      const to = findMac(b, p, start, end, out, mac)
      if (to >= 0) return to
    }
    if (api_key >= 0) {
      const to = findKey(b, p, start, end, out, api_key)
      if (to > p + 1) return to
    }
    return private_key >= 0 && b[p] === DASH ? findPrivateKey(b, p, start, end, out, private_key) : p + 1
  }

  #escape(b: Buffer, p: number, end: number): number {
    if (b[p] === BACKSLASH) this.hasBackslash = true
    const to = escapeEnd(b, p, end)
    if (to < 0) return Math.max(p + 1, endOfBackslashes(b, p, end))
    if (this.lastEscape < 0) this.firstEscape = p
    this.lastEscape = p
    // A secret may begin after a backslash that is not part of an escape.
    return Math.max(p + 1, endOfBackslashes(b, p, end))
  }
}

function isExponent(b: Buffer, p: number, end: number): boolean {
  if (p < end && (b[p] === DASH || b[p] === SIGN)) p++
  const to = endOf(b, p, end, DIGIT_BYTE)
  return to > p && (to === end || b[to]! <= 0x20 || b[to] === COMMA || b[to] === CLOSE_ARRAY || b[to] === CLOSE_OBJECT)
}

function isBehindDot(b: Buffer, p: number, start: number): boolean {
  return p - 2 >= start && b[p - 1] === DOT && is(b[p - 2], DIGIT_BYTE)
}
