import { isoText, TIME_FORMATS } from './time-formats.js'
import { TimeZone } from './time-zone.js'

const POINT = 0x2e
const ZERO = 0x30
const Z = 0x5a
const UTC = new TimeZone('UTC')
/** Digits of the seconds that are kept, and of a fraction that is copied. */
const FEWEST = 9
const MOST = 11
const MOST_FRACTION = 9
const LEAST_FRACTION = 3
/** Length of `2026-01-31T12:00:00.`. */
const ISO = 20
/** With a sign and six digits of the year. */
const LONGEST_ISO = 40

/** Converts seconds since the epoch to ISO 8601. It keeps the last second, which many lines have. */
export class EpochTime {
  readonly #last = Buffer.alloc(MOST)
  #digits = -1
  /** The time that was converted last: the first `length` bytes. */
  readonly bytes = Buffer.alloc(LONGEST_ISO)
  length = 0

  /** Converts the number [start, end) to UTC, with all digits of its fraction. Returns whether it is a time. */
  convert(b: Buffer, start: number, end: number): boolean {
    let point = start
    while (point < end && isDigit(b[point]!)) point++
    const digits = point - start
    let p = point + 1
    while (p < end && isDigit(b[p]!)) p++
    const fraction = p - point - 1
    const isUsual = b[point] === POINT && p === end && fraction > 0 && fraction <= MOST_FRACTION
    if (!isUsual || digits < FEWEST || digits > MOST) return this.#convertAny(b, start, end)
    if (!this.#isLast(b, start, digits)) {
      b.copy(this.#last, 0, start, point)
      this.#digits = digits
      this.bytes.write(new Date(Number(b.toString('latin1', start, point)) * 1000).toISOString())
    }
    const iso = this.bytes
    let at = ISO
    for (let digit = point + 1; digit < end; digit++) iso[at++] = b[digit]!
    while (at < ISO + LEAST_FRACTION) iso[at++] = ZERO
    iso[at++] = Z
    this.length = at
    return true
  }

  #convertAny(b: Buffer, start: number, end: number): boolean {
    const text = b.toString('latin1', start, end)
    const time = TIME_FORMATS.unix!(/e/i.test(text) ? String(Number(text)) : text, UTC, 0)
    const iso = time && isoText(time)
    if (iso === undefined) return false
    this.#digits = -1
    this.length = this.bytes.write(iso)
    return true
  }

  #isLast(b: Buffer, start: number, digits: number): boolean {
    if (digits !== this.#digits) return false
    // The last digits differ first.
    for (let i = digits - 1; i >= 0; i--) if (b[start + i] !== this.#last[i]) return false
    return true
  }
}

function isDigit(byte: number): boolean {
  return byte >= ZERO && byte <= ZERO + 9
}
