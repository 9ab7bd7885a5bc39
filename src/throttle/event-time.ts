import type { EventBatch } from '../core/batch.js'
import { type FieldReader, NUMBER, OBJECT_VALUE, STRING } from '../core/field-reader.js'
import { LARGEST_MS, parseIsoTime } from '../lib/iso-time.js'

/** Digits that a whole number may have to be exact. */
const MOST_DIGITS = 15
/** Of `20260131`: a date. */
const DATE_DIGITS = 8

/**
 * The time that a field of an event says, in milliseconds since the epoch: a number of them (as a string, too), or a
 * time as ISO 8601 writes it. NaN where it says none.
 */
export function eventTime(field: FieldReader, batch: EventBatch, i: number): number {
  switch (field.load(batch, i)) {
    case STRING:
      return textTime(field)
    case NUMBER:
      return possible(field.number())
    case OBJECT_VALUE: {
      // Of an event that a program made; one that was read has none.
      const value = field.bytes.length === 0 ? field.value() : undefined
      return value instanceof Date ? value.getTime() : Number.NaN
    }
    default:
      return Number.NaN
  }
}

function textTime(field: FieldReader): number {
  let { bytes, start, end } = field
  if (!field.plain) {
    bytes = Buffer.from(field.text())
    start = 0
    end = bytes.length
  }
  const whole = end - start === DATE_DIGITS ? Number.NaN : wholeNumber(bytes, start, end)
  if (!Number.isNaN(whole)) return whole
  const time = parseIsoTime(bytes, start, end)
  return Number.isNaN(time) ? possible(field.number()) : time
}

/** The number that the digits [start, end) say; NaN when there is anything else, or too many of them. */
function wholeNumber(bytes: Uint8Array, start: number, end: number): number {
  if (start === end || end - start > MOST_DIGITS) return Number.NaN
  let value = 0
  for (let p = start; p < end; p++) {
    const digit = bytes[p]! - 0x30
    if (digit < 0 || digit > 9) return Number.NaN
    value = value * 10 + digit
  }
  return value
}

function possible(ms: number): number {
  return Math.abs(ms) <= LARGEST_MS ? ms : Number.NaN
}

/** Times before 1973 in milliseconds are times of today in seconds. */
const SECONDS_FROM = 1e8
const SECONDS_TO = 1e11

/** Whether what should be milliseconds is rather seconds. */
export function looksLikeSeconds(ms: number): boolean {
  return ms > SECONDS_FROM && ms < SECONDS_TO
}
