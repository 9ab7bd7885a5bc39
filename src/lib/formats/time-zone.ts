/** A time zone with its clock changes. */

const DAY_MS = 86_400_000
/** Clocks only change at full quarters of an hour. */
const QUARTER_MS = 900_000
const MOST_CACHED = 4096

export class TimeZone {
  /** Undefined for UTC. */
  readonly #format: Intl.DateTimeFormat | undefined
  /** Offsets from UTC in milliseconds. The key is a quarter of an hour in local time. */
  readonly #known = new Map<number, number>()
  #lastQuarter = Number.NaN
  #lastOffset = 0

  /** Throws a RangeError if the runtime does not know the name. */
  constructor(name: string) {
    // Creating the format takes milliseconds, so it is not created for UTC.
    if (name === 'UTC') return
    this.#format = localTimes(name)
  }

  /**
   * Converts a local time, given as if it were UTC, to milliseconds since the epoch. If the clocks show a time twice,
   * the first of the two is meant. If the clocks skip a time, it moves forward by the skipped interval. NaN for NaN.
   */
  utc(local: number): number {
    if (!this.#format || Number.isNaN(local)) return local
    const quarter = Math.floor(local / QUARTER_MS)
    if (quarter !== this.#lastQuarter) {
      let offset = this.#known.get(quarter)
      if (offset === undefined) {
        offset = this.#find(local)
        if (this.#known.size === MOST_CACHED) this.#known.clear()
        this.#known.set(quarter, offset)
      }
      this.#lastQuarter = quarter
      this.#lastOffset = offset
    }
    return local - this.#lastOffset
  }

  #find(local: number): number {
    const before = this.#offset(local - DAY_MS)
    const after = this.#offset(local + DAY_MS)
    if (before === after || this.#offset(local - before) === before) return before
    return this.#offset(local - after) === after ? after : before
  }

  /** Returns local time minus UTC in milliseconds, at the time `utc`. */
  #offset(utc: number): number {
    const part: Record<string, number> = {}
    for (const { type, value } of this.#format!.formatToParts(utc)) part[type] = Number(value)
    const local = Date.UTC(part.year!, part.month! - 1, part.day!, part.hour!, part.minute!, part.second!)
    return local - Math.floor(utc / 1000) * 1000
  }
}

/** Converts times to the numbers of a local calendar and clock. Throws a RangeError if the zone is unknown. */
export function localTimes(timeZone: string): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat('en-US', {
    timeZone,
    calendar: 'gregory',
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  })
}
