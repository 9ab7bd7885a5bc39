import type { EventBatch } from '../../../core/event/batch.js'
import { type FieldReader, NUMBER, OBJECT_VALUE, STRING_VALUE } from '../../../core/event/field-reader.js'
import { LARGEST_MS, parseIsoTime } from '../../../lib/formats/iso-time.js'

/** Reads the time of event `i`, in milliseconds since the epoch, or NaN. */
export interface TimeReader {
  of(batch: EventBatch, i: number): number
}

export class NamedTime implements TimeReader {
  readonly field: FieldReader

  constructor(field: FieldReader) {
    this.field = field
  }

  of(batch: EventBatch, i: number): number {
    return eventTime(this.field, batch, i)
  }
}

/** Event times up to this far ahead of the clock are always accepted, because clocks differ. */
const AHEAD_MS = 1000

/** The latest valid time of an event that arrived at `arrival`. An event with a later time is counted at `arrival`. */
export const latestTime = (arrival: number, latenessMs: number): number => arrival + Math.max(latenessMs, AHEAD_MS)

/** Integers with at most this many digits are exact as doubles. */
const MOST_DIGITS = 15
/** A number with this many digits is a date: `20260131`. */
const DATE_DIGITS = 8

/**
 * The time in a field, in milliseconds since the epoch. The field may be a number, a text with a number, or a text in
 * ISO 8601. NaN if the field does not hold a time.
 */
export function eventTime(field: FieldReader, batch: EventBatch, i: number): number {
  switch (field.load(batch, i)) {
    case STRING_VALUE:
      return textTime(field)
    case NUMBER:
      return possible(field.number())
    case OBJECT_VALUE: {
      // Only events created by a program can contain a Date.
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

/** The integer with the digits [start, end); NaN if there are other characters or too many digits. */
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

/** Numbers in this range are times before 1973 if they are milliseconds, but plausible times if they are seconds. */
const SECONDS_FROM = 1e8
const SECONDS_TO = 1e11

/** Whether a value in milliseconds would be more plausible as seconds. */
export function looksLikeSeconds(ms: number): boolean {
  return ms > SECONDS_FROM && ms < SECONDS_TO
}
