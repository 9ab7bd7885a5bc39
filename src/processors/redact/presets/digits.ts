import { DIGIT, is, WORD } from './bytes.js'

/** Finds what begins with a digit. All return the end of what begins at `p`, or -1. */

const SPACE = 0x20
const DASH = 0x2d
const DOT = 0x2e
const SLASH = 0x2f
const OPEN = 0x28
const CLOSE = 0x29
const ZERO = 0x30

const LONGEST_CARD = 19
const digits = new Uint8Array(LONGEST_CARD)

const isDigit = (byte: number | undefined) => is(byte, DIGIT)

/**
 * A card number: 12 to 19 digits of a known brand with the check digit of Luhn, also in groups of at least two that are
 * divided by spaces, dashes or dots, all of one kind.
 */
export function cardEnd(b: Buffer, p: number, start: number, end: number): number {
  // The digits of a fraction are no number of their own.
  if (p - 2 >= start && b[p - 1] === DOT && isDigit(b[p - 2])) return -1
  if (b[p]! < 0x32 || b[p]! > 0x36) return -1
  let count = 0
  let group = 0
  let separator = 0
  let found = -1
  for (;;) {
    const byte = p < end ? b[p] : undefined
    if (isDigit(byte)) {
      if (count === LONGEST_CARD) return group === count ? -1 : found
      digits[count++] = byte! - ZERO
      group++
      p++
      continue
    }
    if (isCard(count)) found = p
    if (byte !== SPACE && byte !== DASH && byte !== DOT) return found
    if (group < 2 || (separator !== 0 && byte !== separator) || p + 1 >= end || !isDigit(b[p + 1])) return found
    separator = byte
    group = 0
    p++
  }
}

/** Whether the first `count` digits are a card number. */
function isCard(count: number): boolean {
  if (count < 12) return false
  const two = digits[0]! * 10 + digits[1]!
  const isKnown =
    digits[0] === 4
      ? count === 13 || count === 16 || count === 19
      : digits[0] === 6 || two === 50 || (two >= 56 && two <= 59)
        ? true
        : two >= 51 && two <= 55
          ? count === 16
          : digits[0] === 2
            ? count === 16 && two >= 22 && two <= 27
            : two === 34 || two === 37
              ? count === 15
              : two === 35
                ? count >= 16
                : (two === 30 || two === 36 || two === 38 || two === 39) && count >= 14
  return isKnown && hasCheckDigit(count)
}

function hasCheckDigit(count: number): boolean {
  let sum = 0
  for (let i = count - 1, twice = false; i >= 0; i--, twice = !twice) {
    const value = twice ? digits[i]! * 2 : digits[i]!
    sum += value > 9 ? value - 9 : value
  }
  return sum % 10 === 0
}

/** Four numbers up to 255 with dots between them, and no fifth. */
export function ipv4End(b: Buffer, p: number, end: number): number {
  for (let octet = 0; ; octet++) {
    const from = p
    let value = 0
    while (p < end && p - from < 4 && isDigit(b[p])) value = value * 10 + b[p++]! - ZERO
    if (p === from || p - from > 3 || value > 255) return -1
    if (octet === 3) return p + 1 < end && b[p] === DOT && isDigit(b[p + 1]) ? -1 : p
    if (p >= end || b[p++] !== DOT) return -1
  }
}

/** 7 to 15 digits after a plus sign, with at most two of ` -./()` between them. `p` is behind the sign. */
export function internationalEnd(b: Buffer, p: number, end: number): number {
  if (p >= end || !isDigit(b[p]) || b[p] === ZERO) return -1
  let count = 0
  let last = p
  for (let between = 0; p < end; p++) {
    if (isDigit(b[p])) {
      if (++count > 15) return -1
      last = p + 1
      between = 0
    } else if (++between > 2 || !isBetween(b[p]!)) break
  }
  return count >= 7 && !is(last < end ? b[last] : undefined, WORD) ? last : -1
}

/** A number of North America with its dividers: 555-123-4567, (555) 123-4567. `p` is at its first digit. */
export function americanEnd(b: Buffer, p: number, end: number): number {
  if (!isGroup(b, p, end, 3) || b[p]! < 0x32) return -1
  p += 3
  if (p < end && b[p] === CLOSE) p++
  if (p < end && isBetween(b[p]!)) p++
  else if (b[p - 1] !== CLOSE) return -1
  if (!isGroup(b, p, end, 3) || b[p]! < 0x32) return -1
  p += 3
  if (p >= end || !isBetween(b[p]!)) return -1
  return isGroup(b, p + 1, end, 4) ? p + 5 : -1
}

function isGroup(b: Buffer, p: number, end: number, length: number): boolean {
  if (p + length > end) return false
  for (let i = 0; i < length; i++) if (!isDigit(b[p + i])) return false
  return p + length === end || !is(b[p + length], WORD)
}

function isBetween(byte: number): boolean {
  return byte === SPACE || byte === DASH || byte === DOT || byte === SLASH || byte === OPEN || byte === CLOSE
}

/** Lengths of account numbers by country. */
const LENGTHS = new Map(
  (
    'AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 ES24 ' +
    'FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 ' +
    'LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 ' +
    'RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30'
  )
    .split(' ')
    .map(text => [text.charCodeAt(0) * 256 + text.charCodeAt(1), Number(text.slice(2))]),
)

/** An account number (IBAN) whose two letters are before `p`, with its check digits, also in groups divided by spaces. */
export function ibanEnd(b: Buffer, p: number, end: number): number {
  const country = (b[p - 2]! & 0xdf) * 256 + (b[p - 1]! & 0xdf)
  const length = LENGTHS.get(country)
  if (length === undefined) return -1
  // The first four characters count as the last ones.
  let rest = 0
  const first = p - 2
  let count = 2
  let from = -1
  while (count < length) {
    if (p >= end) return -1
    const byte = b[p]!
    if (is(byte, WORD)) {
      if (++count === 4) from = p + 1
      else if (count > 4) rest = add(rest, byte)
    } else if ((byte !== SPACE && byte !== DASH) || !is(b[p - 1], WORD)) return -1
    p++
  }
  for (let i = first, taken = 0; taken < 4 && i < from; i++) {
    if (!is(b[i], WORD)) continue
    taken++
    rest = add(rest, b[i]!)
  }
  return rest === 1 && !is(p < end ? b[p] : undefined, WORD) ? p : -1
}

/** Appends a digit, or the two of a letter, to a number of which only the remainder by 97 is kept. */
function add(rest: number, byte: number): number {
  return isDigit(byte) ? (rest * 10 + byte - ZERO) % 97 : (rest * 100 + (byte & 0xdf) - 55) % 97
}
