/** Times as ISO 8601 writes them, read from bytes: nothing is allocated. */

const MS_PER_DAY = 86_400_000
const MINUS = 0x2d
const PLUS = 0x2b
const COLON = 0x3a
/** What `Date` can show. */
const LARGEST_MS = 8.64e15

/** Where the reader stands. `parseIsoTime` finishes what it begins, so one does for all. */
let bytes: Uint8Array = new Uint8Array(0)
let at = 0
let end = 0

/**
 * Milliseconds since the epoch of `2026-01-31T23:59:59.999Z`, with parts of one where they are written; NaN for
 * anything else. A space may stand for the T, seconds and punctuation may be left out, an offset may be there; without
 * one it is UTC, and so is a date alone.
 */
export function parseIsoTime(text: Uint8Array, from: number, to: number): number {
  bytes = text
  at = from
  end = to
  const ms = date() + (at < end ? timeOfDay() : 0)
  return at === end && Math.abs(ms) <= LARGEST_MS ? ms : Number.NaN
}

/** Exactly `count` digits; NaN when they are not there. */
function digits(count: number): number {
  let value = 0
  for (let i = 0; i < count; i++, at++) {
    const digit = at < end ? bytes[at]! - 0x30 : -1
    if (digit < 0 || digit > 9) return Number.NaN
    value = value * 10 + digit
  }
  return value
}

/** Takes the byte if it stands here. */
function take(byte: number): boolean {
  if (at >= end || bytes[at] !== byte) return false
  at++
  return true
}

function within(value: number, least: number, most: number): number {
  return value >= least && value <= most ? value : Number.NaN
}

function date(): number {
  const year = digits(4)
  const extended = take(MINUS)
  const month = within(digits(2), 1, 12)
  if (extended && !take(MINUS)) return Number.NaN
  const day = within(digits(2), 1, daysIn(year, month))
  return daysFromEpoch(year, month, day) * MS_PER_DAY
}

function isLeap(year: number): boolean {
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
}

function daysIn(year: number, month: number): number {
  if (month === 2) return isLeap(year) ? 29 : 28
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31
}

/** Days of the Gregorian calendar. Years begin with March here, so that the leap day is the last of a year. */
function daysFromEpoch(year: number, month: number, day: number): number {
  const y = month > 2 ? year : year - 1
  const dayOfYear = Math.floor((153 * ((month + 9) % 12) + 2) / 5) + day - 1
  return y * 365 + Math.floor(y / 4) - Math.floor(y / 100) + Math.floor(y / 400) + dayOfYear - 719_468
}

function timeOfDay(): number {
  const mark = bytes[at++]
  if (mark !== 0x54 && mark !== 0x74 && mark !== 0x20) return Number.NaN
  const hours = within(digits(2), 0, 24)
  const extended = take(COLON)
  const minutes = within(digits(2), 0, 59)
  let ms = 0
  if (extended ? take(COLON) : isDigit()) {
    // 60 is a leap second: the first one of the next minute.
    ms = within(digits(2), 0, 60) * 1000
    if (take(0x2e) || take(0x2c)) ms += fraction()
  }
  if (hours === 24 && (minutes > 0 || ms > 0)) return Number.NaN
  return hours * 3_600_000 + minutes * 60_000 + ms - offset()
}

function isDigit(): boolean {
  return at < end && bytes[at]! >= 0x30 && bytes[at]! <= 0x39
}

/** The digits behind the point, in milliseconds. */
function fraction(): number {
  let unit = 100
  let ms = 0
  if (!isDigit()) return Number.NaN
  // Down to microseconds: a sum of today cannot tell more.
  for (; isDigit(); at++, unit /= 10) if (unit > 0.0005) ms += (bytes[at]! - 0x30) * unit
  return ms
}

function offset(): number {
  if (at === end || take(0x5a) || take(0x7a)) return 0
  const negative = take(MINUS)
  if (!negative && !take(PLUS)) return Number.NaN
  const hours = within(digits(2), 0, 23)
  let ms = hours * 3_600_000
  if (at < end) {
    take(COLON)
    ms += within(digits(2), 0, 59) * 60_000
  }
  return negative ? -ms : ms
}
