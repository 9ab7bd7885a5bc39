import { LARGEST_MS } from '../../../lib/formats/iso-time.js'
import { localTimes } from '../../../lib/formats/time-zone.js'

/** Consecutive time spans that cover all time. */
export interface Periods {
  readonly longestMs: number

  /** The start of the period that contains `wall`, in milliseconds since the epoch. */
  startOf(wall: number): number

  /** The end of the period that contains `wall`, which is the start of the next period. */
  endOf(wall: number): number
}

/** Periods of equal length. Each period starts at a multiple of this length since the epoch. */
export class AlignedPeriods implements Periods {
  readonly longestMs: number

  constructor(windowMs: number) {
    this.longestMs = windowMs
  }

  startOf(wall: number): number {
    return Math.floor(wall / this.longestMs) * this.longestMs
  }

  endOf(wall: number): number {
    return this.startOf(wall) + this.longestMs
  }
}

export type CalendarUnit = 'hour' | 'day' | 'week' | 'month'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** In all zones, local time differs from UTC by less than this, even on a day on which the clocks change. */
const MOST_SHIFTED_MS = 26 * HOUR_MS
/**
 * No zone has rules outside of this range. All time before the range is one period, and all time after it is another.
 */
const FIRST_MS = Date.UTC(1800, 0)
const LAST_MS = Date.UTC(9999, 0)
const MOST_CACHED = 10_000

/** The nominal length of a period, and its maximum length if the clocks change during the period. */
const LENGTHS: Readonly<Record<CalendarUnit, readonly [nominalMs: number, longestMs: number]>> = {
  hour: [HOUR_MS, HOUR_MS],
  day: [DAY_MS, 2 * DAY_MS],
  week: [7 * DAY_MS, 8 * DAY_MS],
  month: [30 * DAY_MS, 32 * DAY_MS],
}

export const nominalMs = (unit: CalendarUnit) => LENGTHS[unit][0]

/**
 * Hours, days, weeks from Monday, or months in a time zone. A day lasts from the first to the last moment of its date,
 * even if the clocks change on that day. If the clocks repeat an hour, each of the two hours is a period.
 */
export class CalendarPeriods implements Periods {
  readonly longestMs: number
  readonly #unit: CalendarUnit
  readonly #format: Intl.DateTimeFormat
  #starts: number[] = []
  #ends: number[] = []
  #start = 0
  #end = 0

  constructor(unit: CalendarUnit, timeZone: string) {
    this.longestMs = LENGTHS[unit][1]
    this.#unit = unit
    this.#format = localTimes(timeZone)
  }

  startOf(wall: number): number {
    if (wall < this.#start || wall >= this.#end) this.#find(wall)
    return this.#start
  }

  endOf(wall: number): number {
    if (wall < this.#start || wall >= this.#end) this.#find(wall)
    return this.#end
  }

  #find(wall: number): void {
    let [low, high] = [0, this.#starts.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#starts[middle]! <= wall) low = middle + 1
      else high = middle
    }
    if (low > 0 && wall < this.#ends[low - 1]!) {
      this.#start = this.#starts[low - 1]!
      this.#end = this.#ends[low - 1]!
      return
    }
    if (wall < FIRST_MS) [this.#start, this.#end] = [-LARGEST_MS, FIRST_MS]
    else if (wall >= LAST_MS) [this.#start, this.#end] = [LAST_MS, LARGEST_MS]
    else if (this.#unit === 'hour') this.#computeHour(wall)
    else this.#computeDays(wall)
    if (this.#starts.length >= MOST_CACHED) {
      this.#starts = []
      this.#ends = []
      low = 0
    }
    this.#starts.splice(low, 0, this.#start)
    this.#ends.splice(low, 0, this.#end)
  }

  #computeHour(wall: number): void {
    const offset = this.#offset(wall)
    const start = Math.floor((wall + offset) / HOUR_MS) * HOUR_MS - offset
    const end = start + HOUR_MS
    const isSame = (time: number) => this.#offset(time) === offset
    this.#set(
      isSame(start) ? start : first(start, Math.floor(wall), isSame),
      isSame(end - 1) ? end : first(Math.floor(wall), end, time => !isSame(time)),
    )
  }

  #set(start: number, end: number): void {
    this.#start = Math.max(start, FIRST_MS)
    this.#end = Math.min(end, LAST_MS)
  }

  #computeDays(wall: number): void {
    const day = this.#dayOf(wall)
    const [from, to] = daysOf(this.#unit, day)
    this.#set(this.#startOfDay(from), this.#startOfDay(to))
  }

  /** The first moment of a day. If the zone skips that day, the first moment of the next day. */
  #startOfDay(day: number): number {
    const midnight = day * DAY_MS
    const usual = midnight - this.#offset(midnight - this.#offset(midnight))
    if (this.#dayOf(usual) === day && this.#dayOf(usual - 1) < day) return usual
    return first(midnight - MOST_SHIFTED_MS, midnight + MOST_SHIFTED_MS, time => this.#dayOf(time) >= day)
  }

  /** The date at a time, in days since the epoch. */
  #dayOf(time: number): number {
    return Math.floor((time + this.#offset(time)) / DAY_MS)
  }

  /** The zone's offset from UTC at `time`, in milliseconds. */
  #offset(time: number): number {
    const whole = Math.floor(time / 1000) * 1000
    const parts: Record<string, number> = {}
    for (const { type, value } of this.#format.formatToParts(whole)) parts[type] = Number(value)
    const { year, month, day, hour, minute, second } = parts
    return Date.UTC(year!, month! - 1, day, hour, minute, second) - whole
  }
}

/** The first day of the period that contains `day`, and the first day of the next period. */
function daysOf(unit: CalendarUnit, day: number): [from: number, to: number] {
  if (unit === 'day') return [day, day + 1]
  if (unit === 'week') {
    // The epoch was a Thursday.
    const monday = day - ((((day + 3) % 7) + 7) % 7)
    return [monday, monday + 7]
  }
  const date = new Date(day * DAY_MS)
  const start = (months: number) => {
    const first = new Date(0)
    first.setUTCFullYear(date.getUTCFullYear(), date.getUTCMonth() + months, 1)
    return first.getTime() / DAY_MS
  }
  return [start(0), start(1)]
}

/**
 * The first whole millisecond in (from, to] for which `holds` returns true. For all later times up to `to`, `holds`
 * must return true, too.
 */
function first(from: number, to: number, holds: (time: number) => boolean): number {
  let [low, high] = [from, to]
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2)
    if (holds(middle)) high = middle
    else low = middle
  }
  return high
}
