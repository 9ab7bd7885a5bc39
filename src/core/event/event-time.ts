import { NINE, ZERO } from '../../lib/formats/ascii.js'
import { parseIsoTime } from '../../lib/formats/iso-time.js'
import { writeBytes } from '../../lib/formats/json-string.js'
import type { EventBatch } from './batch.js'
import { eventNumber } from './event-id.js'
import { type FieldReader, NUMBER, STRING_VALUE } from './field-reader.js'

/** The fraction in a time that `parseIsoTime` accepts, such as `2026-01-31 23:59:59.123456789`. */
const FRACTION = /[.,](?<=\d\d:?\d\d:?\d\d.)(\d{1,9})\d*/
/** Before the point, a Unix time has at most 11 digits if in seconds, 14 if in milliseconds, 17 if in microseconds. */
const EPOCH = /^(\d{1,19})(?:\.(\d{1,9})\d*)?$/
const EXPONENT = /^\d[\d.]*[eE]\+?\d+$/
const NANO_DIGITS = 9
/** The end of the year 9999. */
const MOST_SECONDS = 253_402_300_799
/** The largest prime for each number of digits. */
const PRIMES = [1, 7, 97, 997, 9973, 99_991, 999_983, 9_999_991, 99_999_989, 999_999_937]

/** For each number of fraction digits: the value of the last digit in nanoseconds. */
const UNITS = PRIMES.map((_, digits) => 10 ** (NANO_DIGITS - digits))

/** Reads the times of events with a precision of nanoseconds. */
export class EventTime {
  readonly #field: FieldReader
  readonly #text = new TimeText()
  /** The result of `readUnix`: whole seconds since the epoch, and the fraction in nanoseconds. */
  readonly unix = { seconds: 0, nanos: 0 }
  #lastMs = Number.NaN
  #lastIso = ''
  #lastRead: TimeParts | undefined
  #lastText = ''
  #receivedMs = Number.NaN
  #receivedParts: TimeParts = { seconds: 0, digits: '' }

  constructor(field: FieldReader) {
    this.#field = field
  }

  /**
   * Reads the time since the epoch into `unix`. Digits that the time does not have are derived from the event's place
   * in the input. So if times have milliseconds, equal lines that are less than a million bytes apart get different
   * values. A line that is sent again gets the same value.
   */
  readUnix(batch: EventBatch, i: number): void {
    const { unix } = this
    const read = this.partsOf(batch, i)
    const ms = Math.floor(batch.receivedAt)
    const digits = read ? read.digits.length : 3
    const given = read ? Number(read.digits) : ms % 1000
    unix.seconds = read ? read.seconds : Math.floor(ms / 1000)
    unix.nanos = given * UNITS[digits]! + (eventNumber(batch, i) % PRIMES[NANO_DIGITS - digits]!)
  }

  /** Returns the time that `readUnix` reads, in nanoseconds. */
  nanosOf(batch: EventBatch, i: number): string {
    this.readUnix(batch, i)
    const { seconds, nanos } = this.unix
    return seconds < 0
      ? String(BigInt(seconds) * 10n ** 9n + BigInt(nanos))
      : seconds + String(nanos).padStart(NANO_DIGITS, '0')
  }

  /**
   * Returns whole seconds since the epoch. If the event has no time in the years up to 9999, returns the time of
   * receipt.
   */
  secondsOf(batch: EventBatch, i: number): number {
    const seconds = this.partsOf(batch, i)?.seconds
    return isDate(seconds) ? seconds : Math.floor(batch.receivedAt / 1000)
  }

  /**
   * Returns the time as `2026-01-31T23:59:59.123456789Z`, with as many digits in the fraction as the event's time has.
   * If the event has no time, returns the time of receipt.
   */
  isoOf(batch: EventBatch, i: number): string {
    const read = this.partsOf(batch, i)
    if (!isDate(read?.seconds)) return this.#iso(batch.receivedAt)
    if (read !== this.#lastRead) {
      this.#lastRead = read
      const { seconds, digits } = read!
      this.#lastText = `${this.#iso(seconds * 1000).slice(0, -5)}${digits && `.${digits}`}Z`
    }
    return this.#lastText
  }

  /** Whether all events of the batch have the time of receipt. */
  isReceipt(batch: EventBatch): boolean {
    return this.#field.isReceipt(batch)
  }

  /** If the event has the text that `isoOf` returns, loads its reader with it, and returns that. */
  writtenIso(batch: EventBatch, i: number): FieldReader | undefined {
    const field = this.#field
    if (this.isReceipt(batch) || field.load(batch, i) !== STRING_VALUE || !field.plain) return undefined
    return this.#text.isUsual(field.bytes, field.start, field.end) ? field : undefined
  }

  /** Returns milliseconds since the epoch. If the event has no valid time, returns the time of receipt. */
  msOf(batch: EventBatch, i: number): number {
    if (this.#field.isReceipt(batch)) return Math.floor(batch.receivedAt)
    const read = this.partsOf(batch, i)
    const ms = read ? read.seconds * 1000 + Math.floor((Number(read.digits) * UNITS[read.digits.length]!) / 1e6) : -1
    return ms >= 0 && ms <= MOST_SECONDS * 1000 ? ms : Math.floor(batch.receivedAt)
  }

  #iso(ms: number): string {
    if (ms !== this.#lastMs) {
      this.#lastMs = ms
      this.#lastIso = new Date(ms).toISOString()
    }
    return this.#lastIso
  }

  partsOf(batch: EventBatch, i: number): TimeParts | undefined {
    if (this.isReceipt(batch)) return this.#received(batch.receivedAt)
    const kind = this.#field.load(batch, i)
    if (kind !== STRING_VALUE && kind !== NUMBER) return undefined
    const { bytes, start, end, plain } = this.#field
    if (kind === STRING_VALUE && plain) return this.#text.partsIn(bytes, start, end)
    // A double cannot hold nanoseconds, so a number is read as it is written.
    const isWritten = kind === NUMBER && bytes.length > 0
    return this.#text.partsOf(isWritten ? bytes.toString('latin1', start, end) : this.#field.text())
  }

  #received(ms: number): TimeParts {
    if (ms !== this.#receivedMs) {
      this.#receivedMs = ms
      this.#receivedParts = { seconds: Math.floor(ms / 1000), digits: new Date(ms).toISOString().slice(-4, -1) }
    }
    return this.#receivedParts
  }
}

const isDate = (seconds: number | undefined): seconds is number =>
  seconds !== undefined && Math.abs(seconds) <= MOST_SECONDS

export interface TimeParts {
  /** Whole seconds since the epoch. */
  readonly seconds: number
  /** The digits of the fraction, as many as are known. */
  readonly digits: string
}

/** Longer texts are not times in a usual format. */
const LONGEST_KEPT = 64
/** The lengths of `2026-01-31T23:59:59`, of the same with `Z`, and of a time with nine digits of a fraction. */
const [SECOND, SECOND_Z, LONGEST_USUAL] = [19, 20, 30]
const USUAL = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/
const [POINT, ZED] = [0x2e, 0x5a]

/** Parses the text of a time: RFC 3339 and similar formats, or a Unix time as a number. */
export class TimeText {
  #lastText = ''
  #lastParts: TimeParts | undefined
  /** The last text as bytes, compared before a string is made. */
  readonly #bytes = Buffer.alloc(LONGEST_KEPT)
  #length = -1
  /** Consecutive times mostly share a second. So this class keeps the last text without fraction, and its seconds. */
  #last = ''
  #seconds = 0
  /** The last time such as `2026-01-31T23:59:59`, and its seconds. */
  readonly #second = Buffer.alloc(SECOND)
  #usualSeconds = 0

  partsOf(text: string): TimeParts | undefined {
    if (text !== this.#lastText) {
      this.#lastText = text
      this.#length = -1
      this.#lastParts = this.#read(text)
    }
    return this.#lastParts
  }

  /** Like `partsOf`, for a text in UTF-8. */
  partsIn(bytes: Buffer, start: number, end: number): TimeParts | undefined {
    const length = end - start
    if (length === this.#length && isEqual(this.#bytes, bytes, start, length)) return this.#lastParts
    if (this.isUsual(bytes, start, end)) {
      this.#lastText = ''
      this.#lastParts = { seconds: this.#usualSeconds, digits: bytes.toString('latin1', start + SECOND_Z, end - 1) }
    } else this.partsOf(bytes.toString('utf8', start, end))
    this.#length = length <= LONGEST_KEPT ? length : -1
    if (length <= LONGEST_KEPT) writeBytes(bytes, start, end, this.#bytes, 0)
    return this.#lastParts
  }

  /** Whether the text is a time such as `2026-01-31T23:59:59.123Z`, of the same second as one that was read before. */
  isUsual(bytes: Buffer, start: number, end: number): boolean {
    const length = end - start
    if (length < SECOND_Z || length > LONGEST_USUAL || bytes[end - 1] !== ZED) return false
    if (!isEqual(this.#second, bytes, start, SECOND)) return false
    if (length === SECOND_Z) return true
    for (let i = start + SECOND_Z; i < end - 1; i++) if (bytes[i]! < ZERO || bytes[i]! > NINE) return false
    return bytes[start + SECOND] === POINT && length > SECOND_Z + 1
  }

  #read(text: string): TimeParts | undefined {
    const [, number, behind = ''] = EPOCH.exec(EXPONENT.test(text) ? String(Number(text)) : text) ?? []
    if (number !== undefined) return ofEpoch(number, behind)
    const [fraction = '', digits = ''] = FRACTION.exec(text) ?? []
    const whole = fraction === '' ? text : text.replace(fraction, '')
    if (whole !== this.#last) {
      this.#last = whole
      const bytes = Buffer.from(whole)
      this.#seconds = parseIsoTime(bytes, 0, bytes.length) / 1000
      if (USUAL.test(whole) && !Number.isNaN(this.#seconds)) {
        bytes.copy(this.#second)
        this.#usualSeconds = this.#seconds
      }
    }
    return Number.isNaN(this.#seconds) ? undefined : { seconds: this.#seconds, digits }
  }
}

/** Compares from the end, because consecutive times differ there. */
function isEqual(last: Buffer, bytes: Buffer, start: number, length: number): boolean {
  for (let i = length - 1; i >= 0; i--) if (last[i] !== bytes[start + i]) return false
  return true
}

function ofEpoch(number: string, behind: string): { seconds: number; digits: string } {
  const digitsOfUnit = number.length <= 11 ? 0 : number.length <= 14 ? 3 : number.length <= 17 ? 6 : 9
  const at = number.length - digitsOfUnit
  return { seconds: Number(number.slice(0, at)), digits: (number.slice(at) + behind).slice(0, NANO_DIGITS) }
}
