import { COLON, MINUS, SPACE, ZERO } from '../../lib/formats/ascii.js'
import { dayOf, two } from '../../lib/formats/iso-time.js'
import { MONTHS, type TimeParser } from '../../lib/formats/strptime.js'
import { TimeZone } from '../../lib/formats/time-zone.js'

/** Converts times of web servers to ISO 8601 in UTC. Caches the last time, since many lines have the same second. */

const MS_PER_DAY = 86_400_000
const SLASH = 0x2f
const PLUS = 0x2b
/** Minimum length of `31/Jan/2026:12:00:00 +0100`. */
const COMMON_LENGTH = 26
/** Length of `2026-01-31T11:00:00.000Z`. */
const ISO_LENGTH = 24

/** Returns the time that [start, end) contains, in milliseconds since the epoch, perhaps with microseconds; or NaN. */
type TimeOf = (b: Buffer, start: number, end: number) => number

export function ofText(convert: (text: string) => number): TimeOf {
  return (b, start, end) => convert(b.toString('latin1', start, end))
}

export class LastTime {
  readonly #convert: TimeOf
  readonly #last = Buffer.alloc(64)
  #length = -1
  #iso = Buffer.alloc(ISO_LENGTH)
  /** The same time, with microseconds if it has them. */
  #text = this.#iso
  /** The day of `#iso`, in days since the epoch; NaN if the text of `#iso` cannot be reused for that day. */
  #day = Number.NaN
  #isTime = false

  constructor(convert: TimeOf) {
    this.#convert = convert
  }

  /** Returns the time [start, end) in ISO 8601, or undefined if it is not a time. The next call changes the result. */
  iso(b: Buffer, start: number, end: number): Buffer | undefined {
    const length = end - start
    if (length > this.#last.length) return undefined
    if (!this.#isLast(b, start, length)) {
      b.copy(this.#last, 0, start, end)
      this.#length = length
      const ms = this.#convert(b, start, end)
      this.#isTime = this.#write(Math.floor(ms))
      const micros = Math.round((ms - Math.floor(ms)) * 1000)
      this.#text =
        micros > 0 ? Buffer.from(`${this.#iso.toString('latin1', 0, 23)}${`${micros}`.padStart(3, '0')}Z`) : this.#iso
    }
    return this.#isTime ? this.#text : undefined
  }

  /** Writes the text of a time to `#iso`. If the day is the same as before, writes only the time of day. */
  #write(ms: number): boolean {
    const day = Math.floor(ms / MS_PER_DAY)
    if (day !== this.#day) {
      const date = new Date(ms)
      if (Number.isNaN(date.getTime())) return false
      this.#iso = Buffer.from(date.toISOString())
      this.#day = this.#iso.length === ISO_LENGTH ? day : Number.NaN
      return true
    }
    const iso = this.#iso
    const ofDay = ms - day * MS_PER_DAY
    const seconds = Math.floor(ofDay / 1000)
    putTwo(iso, 11, Math.floor(seconds / 3600))
    putTwo(iso, 14, Math.floor(seconds / 60) % 60)
    putTwo(iso, 17, seconds % 60)
    const fraction = ofDay % 1000
    iso[20] = ZERO + Math.floor(fraction / 100)
    putTwo(iso, 21, fraction % 100)
    return true
  }

  #isLast(b: Buffer, start: number, length: number): boolean {
    if (length !== this.#length) return false
    // Compares from the end, where the seconds are.
    for (let i = length - 1; i >= 0; i--) if (b[start + i] !== this.#last[i]) return false
    return true
  }
}

function putTwo(to: Buffer, at: number, value: number): void {
  to[at] = ZERO + Math.floor(value / 10)
  to[at + 1] = ZERO + (value % 10)
}

/** Returns three letters as a number, in lower case. Setting the bit 0x20 turns no other character into a letter. */
const lettersAt = (b: Uint8Array, p: number) => ((b[p]! | 0x20) << 16) | ((b[p + 1]! | 0x20) << 8) | (b[p + 2]! | 0x20)

const MONTH_LETTERS = MONTHS.map(name => lettersAt(Buffer.from(name), 0))

/**
 * Returns the month, from 0, whose English name begins with the three bytes at `p`, in upper or lower case; -1 if there
 * is none.
 */
export function monthAt(b: Uint8Array, p: number): number {
  return MONTH_LETTERS.indexOf(lettersAt(b, p))
}

/** Reads `31/Jan/2026:12:00:00 +0100`, as in access logs. The offset may have a colon. */
export function commonLogTime(b: Buffer, p: number, end: number): number {
  if (end - p < COMMON_LENGTH) return Number.NaN
  const sign = b[p + 21] === MINUS ? -1 : 1
  const minutesAt = b[p + 24] === COLON ? p + 25 : p + 24
  if (end !== minutesAt + 2 || b[p + 2] !== SLASH || b[p + 6] !== SLASH || b[p + 11] !== COLON) return Number.NaN
  if (b[p + 14] !== COLON || b[p + 17] !== COLON || b[p + 20] !== SPACE) return Number.NaN
  if (sign > 0 && b[p + 21] !== PLUS) return Number.NaN
  const day = dayOf(two(b, p + 7) * 100 + two(b, p + 9), monthAt(b, p + 3) + 1, two(b, p))
  const [hour, minute, second] = [two(b, p + 12), two(b, p + 15), two(b, p + 18)]
  const offset = two(b, p + 22) * 60 + two(b, minutesAt)
  if (offset < 0 || hour < 0 || minute < 0 || second < 0 || !isClock(hour, minute, second)) return Number.NaN
  return day + ((hour * 60 + minute - sign * offset) * 60 + second) * 1000
}

let local: TimeZone | undefined

/** Converts a text with the first reader that accepts it. A missing zone is local. `wall` provides a missing year. */
export function firstOf(readers: readonly TimeParser[], wall = 0): TimeOf {
  return ofText(text => {
    local ??= new TimeZone(Intl.DateTimeFormat().resolvedOptions().timeZone)
    for (const read of readers) {
      const time = read(text, local, wall)
      if (time) return time.ms + Number(time.fraction.slice(0, 6).padEnd(6, '0')) / 1000
    }
    return Number.NaN
  })
}

function isClock(hour: number, minute: number, second: number): boolean {
  return hour < 24 && minute < 60 && second <= 60
}
