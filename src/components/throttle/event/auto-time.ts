import type { EventBatch } from '../../../core/event/batch.js'
import { type FieldPath, parseFieldPath } from '../../../core/event/field-path.js'
import { type FieldReader, NUMBER, STRING_VALUE } from '../../../core/event/field-reader.js'
import type { Origin } from '../../../core/event/origin.js'
import { parseIsoTime } from '../../../lib/formats/iso-time.js'
import type { TimeReader } from './time.js'

/**
 * The usual time fields, in the order of their users: winston, Google Cloud, Rust's tracing, the journal and syslog;
 * Elastic and logstash; pino, bunyan, logrus, slog and docker; zap and klog; Serilog; and others.
 */
export const TIME_FIELDS: readonly FieldPath[] = [
  '.timestamp',
  '.@timestamp',
  '.time',
  '.ts',
  '.@t',
  '.t',
  '.datetime',
  '.date',
  '.eventTime',
].map(parseFieldPath)

/** Smallest plausible times since the epoch, in seconds, milliseconds, microseconds and nanoseconds (all in 1973). */
const SECONDS = 1e8
const MILLISECONDS = 1e11
const MICROSECONDS = 1e14
const NANOSECONDS = 1e17
const LARGEST = 1e20
/** Maximum length of a date without a time, such as 2026-01-31. */
const DATE_LENGTH = 10
const YEAR_LENGTH = 4
const DASH = 0x2d

/**
 * Reads the time of an event from one of the usual fields. First tries the field in which a time was last found for the
 * same origin, then the other fields in order.
 */
export class AutoTime implements TimeReader {
  readonly #fields: readonly FieldReader[]
  readonly #known = new WeakMap<Origin, number>()
  #origin: Origin | undefined
  /** The index of the field in which a time was last found for this origin. */
  #last = 0

  constructor(context: { field(path: FieldPath): FieldReader }) {
    this.#fields = TIME_FIELDS.map(path => context.field(path))
  }

  of(batch: EventBatch, i: number): number {
    const { origin } = batch
    if (origin !== this.#origin) {
      this.#origin = origin
      this.#last = this.#known.get(origin) ?? 0
    }
    const time = this.#read(this.#last, batch, i)
    return Number.isNaN(time) ? this.#search(batch, i) : time
  }

  #search(batch: EventBatch, i: number): number {
    const last = this.#last
    for (let n = 0; n < this.#fields.length; n++) {
      if (n === last) continue
      const time = this.#read(n, batch, i)
      if (Number.isNaN(time)) continue
      this.#last = n
      this.#known.set(batch.origin, n)
      return time
    }
    return Number.NaN
  }

  #read(n: number, batch: EventBatch, i: number): number {
    const field = this.#fields[n]!
    const kind = field.load(batch, i)
    const time = kind === STRING_VALUE ? textTime(field) : kind === NUMBER ? plausible(field.number()) : Number.NaN
    return n === 0 && time === batch.receivedAt && !isOfLine(field, batch) ? Number.NaN : time
  }

  /** The field that has the time of event `i`. If no field has a time, the first usual field. */
  fieldOf(batch: EventBatch, i: number): { readonly path: FieldPath; readonly field: FieldReader } {
    const n = Number.isNaN(this.of(batch, i)) ? 0 : this.#last
    return { path: TIME_FIELDS[n]!, field: this.#fields[n]! }
  }
}

/** Whether the line contained the value of the field. If not, the value may be the time at which the line was read. */
function isOfLine({ bytes }: FieldReader, { origin }: EventBatch): boolean {
  return bytes.length > 0 && origin.codec.form !== 'message'
}

function textTime(field: FieldReader): number {
  let { bytes, start, end } = field
  if (!field.plain) {
    bytes = Buffer.from(field.text())
    start = 0
    end = bytes.length
  }
  const first = bytes[start]!
  // Rejects most texts that are not a time.
  if (end - start <= DATE_LENGTH - 1 || first < 0x30 || first > 0x39) return Number.NaN
  // Dates are checked before numbers, because reading a number from a text creates a string.
  if (end - start > DATE_LENGTH && bytes[start + YEAR_LENGTH] === DASH) return parseIsoTime(bytes, start, end)
  const number = plausible(field.number())
  if (!Number.isNaN(number) || end - start <= DATE_LENGTH) return number
  return parseIsoTime(bytes, start, end)
}

/** Converts a number to milliseconds since the epoch. Returns NaN if the number is not plausible as a time. */
function plausible(value: number): number {
  if (!(value >= SECONDS && value < LARGEST)) return Number.NaN
  if (value < MILLISECONDS) return value * 1000
  if (value < MICROSECONDS) return value
  return value < NANOSECONDS ? value / 1000 : value / 1_000_000
}
