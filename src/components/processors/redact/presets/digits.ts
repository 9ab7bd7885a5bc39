import { COLON, DASH, DOT, PLUS, SLASH, SPACE, ZERO } from '../../../../lib/formats/ascii.js'
import { DIGIT_BYTE, endOf, HEX_BYTE, is, runStart, WORD_BYTE } from './bytes.js'

/** These functions look for a match whose first digit is at `p`. They return the end of the match, or -1. */

const [OPEN, CLOSE, NO_BREAK_SPACE] = [0x28, 0x29, 0xa0]

const LONGEST_CARD = 19
const digits = new Uint8Array(LONGEST_CARD)

const isDigit = (byte: number | undefined) => is(byte, DIGIT_BYTE)

/** Other Unicode dividers (spaces and the minus sign), as UTF-8 bytes. */
const OTHER_DIVIDERS = [0xe280af, 0xe2819f, 0xe28892, 0xe38080]
/** By byte: 1 if a divider can begin with it. */
const DIVIDERS = new Uint8Array(256)
for (const byte of [SPACE, PLUS, DASH, DOT, SLASH, NO_BREAK_SPACE, 0xc2, 0xe2, 0xe3]) DIVIDERS[byte] = 1

export function mayDivide(byte: number): boolean {
  return DIVIDERS[byte] === 1
}

/**
 * Returns the end of the divider at `p`, or `p` if no divider is there. Dividers of digit groups are spaces and dashes
 * (also of Unicode), dots, slashes, the no-break space of Latin-1, and + (a space in form data).
 */
export function dividerEnd(b: Buffer, p: number, end: number): number {
  if (p >= end || DIVIDERS[b[p]!] === 0) return p
  const byte = b[p]!
  if (byte < 0x80 || byte === NO_BREAK_SPACE) return p + 1
  if (byte === 0xc2) return p + 1 < end && b[p + 1] === NO_BREAK_SPACE ? p + 2 : p
  if (p + 3 > end) return p
  const code = (byte << 16) | (b[p + 1]! << 8) | b[p + 2]!
  const isSpaceOrDash = (code >= 0xe28080 && code <= 0xe28095) || OTHER_DIVIDERS.includes(code)
  return isSpaceOrDash ? p + 3 : p
}

/**
 * Returns the end of a card number: 12 to 19 digits of a known brand with a valid Luhn check digit. The digits may be
 * in groups of at least two digits, with the same divider between all groups. Slashes and plus signs also occur in
 * paths and sums, so if the divider is one of these, the first group must have four digits. `length`: digits at
 * `p`.
 */
export function cardEnd(b: Buffer, p: number, start: number, end: number, length: number): number {
  if (b[p] === ZERO || b[p] === 0x37) return -1
  // Most numbers that begin with 1 are times.
  if (b[p] === 0x31 && length !== 15 && length !== 4) return -1
  // The digits after a decimal point are not a separate number.
  if (p - 2 >= start && b[p - 1] === DOT && isDigit(b[p - 2])) return -1
  const from = p
  let count = 0
  let group = 0
  let separator = 0
  let found = -1
  for (;;) {
    const byte = p < end ? b[p] : undefined
    if (isDigit(byte)) {
      if (count === LONGEST_CARD) return group === count ? -1 : numberEnd(b, from, found, start, end)
      digits[count++] = byte! - ZERO
      group++
      p++
      continue
    }
    if (isCard(count, separator !== 0)) found = p
    const next = dividerEnd(b, p, end)
    const kind = next > p ? byte! * 256 + b[next - 1]! : 0
    const isGroup = group >= 4 || (group >= 2 && byte !== SLASH && byte !== PLUS) || separator !== 0
    if (kind === 0 || !isGroup || group < 2 || (separator !== 0 && kind !== separator) || next >= end) break
    if (!isDigit(b[next])) break
    separator = kind
    group = 0
    p = next
  }
  return numberEnd(b, from, found, start, end)
}

const UUID = 36
const LONGEST_HASH = 128

/** Returns `to`, or -1 if the digits [from, to) belong to a hash or UUID. */
function numberEnd(b: Buffer, from: number, to: number, start: number, end: number): number {
  if (to < 0) return -1
  for (let p = Math.max(start, from - UUID + 1); p <= from; p++) if (isUuid(b, p, end) && p + UUID >= to) return -1
  const first = runStart(b, from, Math.max(start, from - LONGEST_HASH), HEX_BYTE)
  const last = endOf(b, to, Math.min(end, to + LONGEST_HASH), HEX_BYTE)
  if ((first > start && is(b[first - 1], WORD_BYTE)) || (last < end && is(b[last], WORD_BYTE))) return to
  const isHash = (first < from && last > to) || hasDigit(b, first, from) || hasDigit(b, to, last)
  return isHash ? -1 : to
}

export function hasDigit(b: Buffer, from: number, to: number): boolean {
  for (let p = from; p < to; p++) if (isDigit(b[p])) return true
  return false
}

function isUuid(b: Buffer, p: number, end: number): boolean {
  if (p + UUID > end) return false
  for (let i = 0; i < UUID; i++) {
    const isDash = i === 8 || i === 13 || i === 18 || i === 23
    if (isDash ? b[p + i] !== DASH : !is(b[p + i], HEX_BYTE)) return false
  }
  return true
}

function isCard(count: number, isDivided: boolean): boolean {
  return count >= 12 && isOfBrand(count, isDivided) && hasCheckDigit(count)
}

/** First digits of Maestro, whose numbers may have 12 to 19 digits. */
const MAESTRO = new Set([5018, 5020, 5038, 5893, 6304, 6759, 6761, 6762, 6763])

/**
 * Whether a brand has numbers with these first digits and this length. The reference lists the brands. Numbers with 17
 * to 19 digits are often ids and rarely cards. So for most brands, these numbers must be in groups.
 */
function isOfBrand(count: number, isDivided: boolean): boolean {
  const two = digits[0]! * 10 + digits[1]!
  const four = two * 100 + digits[2]! * 10 + digits[3]!
  const isUsual = count === 16 || (count > 16 && isDivided)
  switch (digits[0]) {
    case 1:
      return count === 15
    case 2:
      if (four === 2131) return count === 15
      return (count === 16 && four >= 2221 && four <= 2720) || (count >= 16 && four >= 2200 && four <= 2205)
    case 3:
      if (two === 34 || two === 37) return count === 15
      if (two === 35) return count >= 16 && four >= 3528 && four <= 3589
      return (count === 14 || isUsual) && (two === 30 || two === 36 || two === 38 || two === 39)
    case 4:
      return count === 13 || count === 16 || (count === 19 && isDivided)
    case 5:
      if (two >= 51 && two <= 55) return count === 16
      return isUsual || MAESTRO.has(four)
    case 6:
      return isUsual || (two === 62 && count === 19) || MAESTRO.has(four)
    default:
      return isUsual && (two === 81 || two === 82 || four === 9792)
  }
}

function hasCheckDigit(count: number): boolean {
  let sum = 0
  for (let i = count - 1, twice = false; i >= 0; i--, twice = !twice) {
    const value = twice ? digits[i]! * 2 : digits[i]!
    sum += value > 9 ? value - 9 : value
  }
  return sum % 10 === 0
}

/** Returns the end of an IPv4 address: four numbers up to 255 with dots between them, not followed by a fifth. */
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

/**
 * Returns the end of a phone number whose plus sign is directly before `p`. The number has 7 to 15 digits, with at most
 * two dividers or parentheses between two digits. `isZone`: whether a first group of four digits is a time zone.
 */
export function internationalEnd(b: Buffer, p: number, end: number, isZone: boolean): number {
  if (p >= end || !isDigit(b[p]) || b[p] === ZERO) return -1
  const from = p
  let count = 0
  let last = p
  let found = -1
  for (let between = 0; p < end; ) {
    if (isDigit(b[p])) {
      if (++count > 15) return found
      last = ++p
      between = 0
      continue
    }
    if (isZone && p - from === 4) return -1
    if (between === 0 && count >= 7) found = last
    const next = betweenEnd(b, p, end)
    if (++between > 2 || next === p) break
    p = next
  }
  return count >= 7 && !is(last < end ? b[last] : undefined, WORD_BYTE) ? last : -1
}

/** Whether the bytes before `p` are a time such as 10:24:29 and a space. In forms, the space is a +. */
export function isBehindTime(b: Buffer, p: number, start: number): boolean {
  if (p - 4 < start || (b[p - 1] !== SPACE && b[p - 1] !== PLUS)) return false
  return isDigit(b[p - 2]) && isDigit(b[p - 3]) && b[p - 4] === COLON
}

/** Returns the end of a phone number such as 555-123-4567 or (555) 123-4567. `p` is at its first digit. */
export function americanEnd(b: Buffer, p: number, end: number): number {
  if (!isGroup(b, p, end, 3) || b[p]! < 0x32) return -1
  p += 3
  if (p < end && b[p] === CLOSE) p++
  const second = betweenEnd(b, p, end)
  if (second === p && b[p - 1] !== CLOSE) return -1
  if (!isGroup(b, second, end, 3) || b[second]! < 0x32) return -1
  const third = betweenEnd(b, second + 3, end)
  return third > second + 3 && isGroup(b, third, end, 4) ? third + 4 : -1
}

function isGroup(b: Buffer, p: number, end: number, length: number): boolean {
  if (p + length > end) return false
  for (let i = 0; i < length; i++) if (!isDigit(b[p + i])) return false
  return p + length === end || !is(b[p + length], WORD_BYTE)
}

/** Returns the end of the divider or parenthesis at `p`, or `p` if neither is there. */
function betweenEnd(b: Buffer, p: number, end: number): number {
  return p < end && (b[p] === OPEN || b[p] === CLOSE) ? p + 1 : dividerEnd(b, p, end)
}

/** By country: the length of its account numbers. A key is the two letters of the country as one number. */
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

/** Countries whose account numbers have digits only. */
const NUMERIC = new Set(
  'AE AT BA BE CR CZ DE DK EE EG ES FI FO GL HR HU IL IS LT LY ME MN MR NO PL PT RS SD SE SI SK SO ST TL TN VA XK'
    .split(' ')
    .map(text => text.charCodeAt(0) * 256 + text.charCodeAt(1)),
)

/** Returns the end of an account number (IBAN), which may have dividers. Its two letters are directly before `p`. */
export function ibanEnd(b: Buffer, p: number, end: number): number {
  const country = (b[p - 2]! & 0xdf) * 256 + (b[p - 1]! & 0xdf)
  const length = LENGTHS.get(country)
  if (length === undefined) return -1
  const isNumeric = NUMERIC.has(country)
  // The remainder is computed as if the first four characters came at the end.
  let rest = 0
  const first = p - 2
  let count = 2
  let from = -1
  let isDivided = false
  while (count < length) {
    if (p >= end) return -1
    const byte = b[p]!
    if (is(byte, WORD_BYTE)) {
      if (isNumeric && !isDigit(byte)) return -1
      if (++count === 4) from = p + 1
      else if (count > 4) rest = add(rest, byte)
      isDivided = false
      p++
      continue
    }
    const next = dividerEnd(b, p, end)
    if (isDivided || next === p) return -1
    isDivided = true
    p = next
  }
  for (let i = first, taken = 0; taken < 4 && i < from; i++) {
    if (!is(b[i], WORD_BYTE)) continue
    taken++
    rest = add(rest, b[i]!)
  }
  return rest === 1 && !is(p < end ? b[p] : undefined, WORD_BYTE) ? p : -1
}

/** Appends a digit, or the two digits of a letter, to a number modulo 97. */
function add(rest: number, byte: number): number {
  return isDigit(byte) ? (rest * 10 + byte - ZERO) % 97 : (rest * 100 + (byte & 0xdf) - 55) % 97
}
