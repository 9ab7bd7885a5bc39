/** Times as web servers write them, as ISO 8601 in UTC. Many lines have the same second, so the last one is kept. */

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

/** Converts texts with the function that it is made with, and keeps the last result. */
export class LastTime {
  readonly #convert: (text: string) => number
  readonly #last = Buffer.alloc(64)
  #length = -1
  #iso: Buffer | undefined

  /** `convert` returns milliseconds since the epoch, or NaN. */
  constructor(convert: (text: string) => number) {
    this.#convert = convert
  }

  /** The time that the text [start, end) says; undefined if it is none. Valid until the next call. */
  iso(b: Buffer, start: number, end: number): Buffer | undefined {
    const length = end - start
    if (length > this.#last.length) return undefined
    if (!this.#isLast(b, start, length)) {
      b.copy(this.#last, 0, start, end)
      this.#length = length
      const ms = this.#convert(b.toString('latin1', start, end))
      const date = new Date(ms)
      this.#iso = Number.isNaN(date.getTime()) ? undefined : Buffer.from(date.toISOString())
    }
    return this.#iso
  }

  #isLast(b: Buffer, start: number, length: number): boolean {
    if (length !== this.#length) return false
    // The seconds at the end differ first.
    for (let i = length - 1; i >= 0; i--) if (b[start + i] !== this.#last[i]) return false
    return true
  }
}

/** `31/Jan/2026:12:00:00 +0100`, of access logs. */
export function commonLogTime(text: string): number {
  const match = /^(\d\d)\/(\w{3})\/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-])(\d\d):?(\d\d)$/.exec(text)
  if (!match) return Number.NaN
  const [, day, month, year, hour, minute, second, sign, hours, minutes] = match
  const utc = utcTime(Number(year), MONTHS.indexOf(month!), Number(day), Number(hour), Number(minute), Number(second))
  return utc - (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * 60_000
}

/** `2026/01/31 12:00:00`, of the error log of nginx: local time. */
export function nginxErrorTime(text: string): number {
  const match = /^(\d{4})\/(\d\d)\/(\d\d) (\d\d):(\d\d):(\d\d)$/.exec(text)
  if (!match) return Number.NaN
  const [year, month, day, hour, minute, second] = match.slice(1).map(Number)
  return localTime(year!, month! - 1, day!, hour!, minute!, second!)
}

const APACHE = /^\w{3} (?<month>\w{3}) (?<day>\d\d) (?<time>[\d:.]+) (?<year>\d{4})$/
const COMPACT = /^(?<year>\d{4})-(?<month>\d\d)-(?<day>\d\d) (?<time>[\d:.]+)$/

/**
 * `Sat Jan 31 12:00:00.123456 2026` or `2026-01-31 12:00:00.123456`, of the error log of Apache: local time, unless it is
 * in the format of access logs.
 */
export function apacheErrorTime(text: string): number {
  const { year, month, day, time } = (APACHE.exec(text) ?? COMPACT.exec(text))?.groups ?? {}
  if (time === undefined) return commonLogTime(text)
  const clock = /^(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?$/.exec(time)
  if (!clock) return Number.NaN
  const [hour, minute, second] = clock.slice(1, 4).map(Number)
  const ms = Number((clock[4] ?? '').slice(0, 3).padEnd(3, '0'))
  const name = MONTHS.indexOf(month!)
  return localTime(Number(year), name < 0 ? Number(month) - 1 : name, Number(day), hour!, minute!, second!) + ms
}

/** NaN for a day that does not exist. A leap second is the second after it. */
function utcTime(year: number, month: number, day: number, hour: number, minute: number, second: number): number {
  const midnight = new Date(Date.UTC(year, month, day))
  const isDay = month >= 0 && month < 12 && midnight.getUTCDate() === day
  return isDay && isClock(hour, minute, second) ? Date.UTC(year, month, day, hour, minute, second) : Number.NaN
}

function localTime(year: number, month: number, day: number, hour: number, minute: number, second: number): number {
  const date = new Date(year, month, day, hour, minute, second)
  const isDay = month >= 0 && month < 12 && new Date(Date.UTC(year, month, day)).getUTCDate() === day
  return isDay && isClock(hour, minute, second) ? date.getTime() : Number.NaN
}

function isClock(hour: number, minute: number, second: number): boolean {
  return hour < 24 && minute < 60 && second <= 60
}
