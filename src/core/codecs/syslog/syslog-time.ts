/** Timestamps of syslog: complete ones of RFC 3339, and `Nov  5 08:14:26` without year and zone. */

import { COLON, DOT, isDigit, SPACE } from '../../../lib/formats/ascii.js'
import { TIME_FORMATS } from '../../time-formats.js'
import { firstOf, LastTime, monthAt } from '../log-times.js'

const MOST_FRACTION_DIGITS = 9

/** Reads `digits` digits at `p`. Returns their value if it is in the range `from` to `to`; otherwise -1. */
function number(b: Uint8Array, p: number, end: number, digits: number, from: number, to: number): number {
  if (p + digits > end) return -1
  let value = 0
  for (const stop = p + digits; p < stop; p++) {
    if (!isDigit(b[p]!)) return -1
    value = value * 10 + b[p]! - 0x30
  }
  return value >= from && value <= to ? value : -1
}

/** Returns the index after the time `hh:mm:ss`, with or without a fraction, at `p`; -1 if `p` has no such time. */
function clockEnd(b: Uint8Array, p: number, end: number): number {
  if (number(b, p, end, 2, 0, 23) < 0 || b[p + 2] !== COLON) return -1
  if (number(b, p + 3, end, 2, 0, 59) < 0 || b[p + 5] !== COLON) return -1
  if (number(b, p + 6, end, 2, 0, 60) < 0) return -1
  p += 8
  if (p + 1 >= end || b[p] !== DOT || !isDigit(b[p + 1]!)) return p
  const fraction = ++p
  while (p < end && isDigit(b[p]!)) p++
  return p - fraction > MOST_FRACTION_DIGITS ? -1 : p
}

/** Returns the index after the RFC 3339 timestamp at `p`; -1: there is none. */
export function isoTimeEnd(b: Uint8Array, p: number, end: number): number {
  if (number(b, p, end, 4, 0, 9999) < 0 || b[p + 4] !== 0x2d) return -1
  if (number(b, p + 5, end, 2, 1, 12) < 0 || b[p + 7] !== 0x2d) return -1
  if (number(b, p + 8, end, 2, 1, 31) < 0 || b[p + 10] !== 0x54) return -1
  p = clockEnd(b, p + 11, end)
  if (p < 0 || p >= end) return -1
  if (b[p] === 0x5a) return p + 1
  if (b[p] !== 0x2b && b[p] !== 0x2d) return -1
  if (number(b, p + 1, end, 2, 0, 23) < 0 || b[p + 3] !== COLON || number(b, p + 4, end, 2, 0, 59) < 0) return -1
  return p + 6
}

/**
 * Returns the index after the RFC 3164 timestamp at `p`; -1: there is none. The day may have one digit; a year may
 * precede the time.
 */
export function classicTimeEnd(b: Uint8Array, p: number, end: number): number {
  if (p + 3 >= end || b[p + 3] !== SPACE || monthAt(b, p) < 0) return -1
  p += 4
  if (p < end && b[p] === SPACE) p++
  const day = p
  while (p < end && isDigit(b[p]!)) p++
  if (p - day > 2 || number(b, day, end, p - day, 1, 31) < 0 || p >= end || b[p] !== SPACE) return -1
  p++
  if (number(b, p, end, 4, 1970, 9999) >= 0 && p + 4 < end && b[p + 4] === SPACE) p += 5
  return clockEnd(b, p, end)
}

/** The last converted time, cached since many lines have the same second. */
let last: LastTime
let lastWall = Number.NaN

/**
 * Converts a time to RFC 3339 in UTC. `classicTimeEnd` must have accepted it. Reads it as local time in the year
 * nearest to `wall`. Undefined if the day does not exist. The result is valid until the next call.
 */
export function classicTime(b: Buffer, start: number, end: number, wall: number): Buffer | undefined {
  if (wall !== lastWall) last = new LastTime(firstOf([TIME_FORMATS.syslog!], wall))
  lastWall = wall
  return last.iso(b, start, end)
}
