import { COLON, COMMA, MINUS, PLUS, POINT } from './ascii.js'

/** Parses ISO 8601 times from bytes without allocations. */

const MS_PER_DAY = 86_400_000
/** The largest time of `Date`, before or after the epoch. */
export const LARGEST_MS = 8.64e15
/** Length of `2026-01-31T23:59:59`. */
const USUAL_LENGTH = 19

/** The state of the parser. Variables of the module are enough, because `parseAny` is never interrupted. */
let bytes: Uint8Array = new Uint8Array(0)
let at = 0
let end = 0
/** The fraction in microseconds. It is added last, so that all notations of a time give the same number. */
let micros = 0

/**
 * Parses a time such as `2026-01-31T23:59:59.999Z`. Returns the milliseconds since the epoch, with a fraction for
 * microseconds; NaN if the text is not a time. A space may replace the T, seconds and punctuation may be missing, and
 * an offset may follow. Without an offset, or with only a date, the time is in UTC.
 */
export function parseIsoTime(text: Uint8Array, from: number, to: number): number {
  const ms = to - from > USUAL_LENGTH ? parseUsual(text, from, to) : Number.NaN
  return Number.isNaN(ms) ? parseAny(text, from, to) : ms
}

/** Parses `2026-01-31T23:59:59Z`, perhaps with a fraction or an offset such as +01:00; NaN for any other form. */
function parseUsual(b: Uint8Array, p: number, to: number): number {
  if (b[p + 4] !== MINUS || b[p + 7] !== MINUS || b[p + 10] !== 0x54) return Number.NaN
  if (b[p + 13] !== COLON || b[p + 16] !== COLON) return Number.NaN
  const dayMs = dayOf(two(b, p) * 100 + two(b, p + 2), two(b, p + 5), two(b, p + 8))
  const hours = two(b, p + 11)
  const minutes = two(b, p + 14)
  const seconds = two(b, p + 17)
  if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59 || seconds < 0 || seconds > 59) return Number.NaN
  const wholeMs = dayMs + ((hours * 60 + minutes) * 60 + seconds) * 1000
  let behind = 0
  let i = p + USUAL_LENGTH
  if (b[i] === POINT) {
    const first = ++i
    for (let unit = 100_000; i < to; i++, unit = (unit / 10) | 0) {
      const digit = b[i]! - 0x30
      if (digit < 0 || digit > 9) break
      behind += digit * unit
    }
    if (i === first) return Number.NaN
  }
  if (i + 1 === to && b[i] === 0x5a) return wholeMs + behind / 1000
  if (i + 6 !== to || b[i + 3] !== COLON || (b[i] !== PLUS && b[i] !== MINUS)) return Number.NaN
  const offsetHours = two(b, i + 1)
  const offsetMinutes = two(b, i + 4)
  if (offsetHours < 0 || offsetHours > 23 || offsetMinutes < 0 || offsetMinutes > 59) return Number.NaN
  const offsetMs = (offsetHours * 60 + offsetMinutes) * 60_000
  return (b[i] === PLUS ? wholeMs - offsetMs : wholeMs + offsetMs) + behind / 1000
}

/** The last day, cached since consecutive times are mostly on the same day. */
let lastDay = -1
let lastDayMs = Number.NaN

/** Returns the start of the day in milliseconds since the epoch; NaN if the day does not exist. */
export function dayOf(year: number, month: number, day: number): number {
  if (year < 0 || month < 1 || month > 12 || day < 1 || day > 31) return Number.NaN
  const days = (year * 12 + month) * 32 + day
  if (days !== lastDay) {
    lastDayMs = day <= daysIn(year, month) ? daysFromEpoch(year, month, day) * MS_PER_DAY : Number.NaN
    lastDay = days
  }
  return lastDayMs
}

/** Returns the value of two digits. If one of them is not a digit, returns a number far below zero. */
export function two(b: Uint8Array, p: number): number {
  const tens = b[p]! - 0x30
  const ones = b[p + 1]! - 0x30
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? tens * 10 + ones : -10_000
}

function parseAny(text: Uint8Array, from: number, to: number): number {
  bytes = text
  at = from
  end = to
  micros = 0
  const wholeMs = date() + (at < end ? timeOfDay() : 0)
  const ms = wholeMs + micros / 1000
  return at === end && Math.abs(ms) <= LARGEST_MS ? ms : Number.NaN
}

/** Reads exactly `count` digits; NaN if there are fewer. */
function digits(count: number): number {
  let value = 0
  for (let i = 0; i < count; i++, at++) {
    const digit = at < end ? bytes[at]! - 0x30 : -1
    if (digit < 0 || digit > 9) return Number.NaN
    value = value * 10 + digit
  }
  return value
}

/** If the next byte is `byte`, moves past it and returns true. */
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

/** Returns the days since the epoch. Years begin in March here, so that the leap day is the last day of a year. */
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
    // 60 is a leap second, and counts as the first second of the next minute.
    ms = within(digits(2), 0, 60) * 1000
    if ((take(POINT) || take(COMMA)) && !fraction()) return Number.NaN
  }
  if (hours === 24 && (minutes > 0 || ms > 0 || micros > 0)) return Number.NaN
  return hours * 3_600_000 + minutes * 60_000 + ms - offset()
}

function isDigit(): boolean {
  return at < end && bytes[at]! >= 0x30 && bytes[at]! <= 0x39
}

/**
 * Reads the fraction's digits. Ignores digits after the microseconds, because a double cannot hold them. Returns false
 * without any digit.
 */
function fraction(): boolean {
  const first = at
  for (let unit = 100_000; isDigit(); at++, unit = (unit / 10) | 0) micros += (bytes[at]! - 0x30) * unit
  return at > first
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
