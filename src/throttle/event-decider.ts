import type { EventBatch } from '../core/event/batch.js'
import { type FieldReader, NUMBER, OBJECT_VALUE, STRING } from '../core/event/field-reader.js'
import { LARGEST_MS, parseIsoTime } from '../lib/formats/iso-time.js'
import type { Clock } from '../lib/time.js'
import { KeyedBuckets } from './buckets.js'
import {
  type DeciderOptions,
  type Decision,
  type EventTimeOptions,
  EXCLUDED,
  FULL,
  KeyedDecider,
  type LimiterOptions,
  TOO_LATE,
} from './decider.js'
import { CountedEventWindows, SlidingEventWindows } from './event-limits.js'
import { type EventWindows, LATE, Progress, type Room, type TakenInTime } from './event-windows.js'

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

/** So much longer than it needs a bucket is kept while nothing comes at all: an outage must not forget it. */
const SILENCE_MS = 3_600_000

/**
 * Windows by key in the time of the events. A bucket is idle when no origin of which something came lately can have an
 * event for one of its windows, unless a late one.
 */
export class EventLimiter {
  readonly progress: Progress
  readonly room: Room = { rows: 0, buckets: 0, forgotten: 0 }
  readonly #default: EventWindows
  readonly #buckets: KeyedBuckets<EventWindows>
  readonly #longestSilenceMs: number

  constructor({ mode, limit, windowMs, maxKeys, seed }: LimiterOptions, latenessMs: number) {
    const progress = new Progress(latenessMs)
    const create = () =>
      mode === 'sliding'
        ? new SlidingEventWindows(limit, windowMs, progress, this.room)
        : new CountedEventWindows(limit, windowMs, mode === 'aligned', progress, this.room)
    const idleMs = windowMs + latenessMs
    this.progress = progress
    this.#default = create()
    this.#buckets = new KeyedBuckets({ idleMs, maxKeys, seed, unusedIsIdle: false }, create)
    this.#longestSilenceMs = idleMs + SILENCE_MS
  }

  /** Buckets in memory, without the default one. */
  get keys(): number {
    return this.#buckets.size
  }

  /** Windows in memory besides the newest of each bucket. */
  get kept(): number {
    return this.room.rows
  }

  /** Drops what is idle. Called before the takes of a batch. */
  advance(): void {
    this.#buckets.advance(this.progress.oldest)
  }

  /** Drops everything when nothing came for very long, by a monotonic clock. */
  rest(clock: number): void {
    if (this.progress.silentMs(clock) >= this.#longestSilenceMs) this.#buckets.clear()
  }

  /** One event of the default bucket. */
  takeDefault(time: number): TakenInTime {
    return this.#default.take(0, time)
  }

  /** One event of the bucket whose key is bytes[start, end). */
  take(bytes: Uint8Array, start: number, end: number, time: number): TakenInTime | typeof FULL {
    const id = this.#buckets.bucket(bytes, start, end, this.progress.oldest)
    return id < 0 ? FULL : this.#buckets.windows.take(id, time)
  }
}

/** A time so far ahead of the clock is believed whatever lateness is allowed: clocks differ. */
const AHEAD_MS = 1000
const DECISIONS = 7

/**
 * Decides in the time of the events. One without a time that can be read, or with one further ahead of the clock than
 * may be late, counts when it arrived: so a single wrong time makes no other event late.
 */
export class EventDecider extends KeyedDecider<TakenInTime> {
  /** The decision for each event of the batch that `decide` saw last. */
  decisions = new Uint8Array(1024)
  /** How many there were of each. */
  readonly counts = new Uint32Array(DECISIONS)
  /** Events of that batch whose time could not be read, and whose time is too far ahead. */
  unreadable = 0
  ahead = 0
  override readonly limiter: EventLimiter
  readonly #options: EventTimeOptions
  readonly #clock: Clock
  /** When the batch arrived, by the wall clock, and the latest time that is believed then. */
  #arrival = 0
  #latest = 0

  /** `limiter`: of one with the same options, to go on with. */
  constructor(options: DeciderOptions, eventTime: EventTimeOptions, clock: Clock, limiter?: EventLimiter) {
    super(options)
    this.limiter = limiter ?? new EventLimiter(options, eventTime.latenessMs)
    this.#options = eventTime
    this.#clock = clock
  }

  /** Decides all events of a batch; the result holds until the next call. */
  decide(batch: EventBatch): this {
    const length = batch.length
    if (this.decisions.length < length) this.decisions = new Uint8Array(length * 2)
    this.counts.fill(0)
    this.unreadable = 0
    this.ahead = 0
    // Events that a program made did not arrive from anywhere.
    this.#arrival = batch.receivedAt || this.#clock.wall()
    this.#latest = this.#arrival + Math.max(this.#options.latenessMs, AHEAD_MS)
    this.enter(batch, this.#clock.now(), this.#arrival)
    const { decisions, counts } = this
    for (let i = 0; i < length; i++) {
      const decision = this.isExcluded(batch, i) ? EXCLUDED : this.#decideOne(batch, i)
      decisions[i] = decision
      counts[decision]!++
    }
    return this
  }

  /** Called before the decisions on a batch. */
  enter(batch: EventBatch, clock: number, arrival: number): void {
    this.limiter.progress.enter(batch.origin, clock, arrival)
    this.limiter.advance()
  }

  #decideOne(batch: EventBatch, i: number): Decision {
    const time = eventTime(this.#options.field, batch, i)
    if (time <= this.#latest) return this.#decideAt(batch, i, time)
    if (Number.isNaN(time)) this.unreadable++
    else this.ahead++
    return this.#onLate(this.take(batch, i, this.#arrival))
  }

  #decideAt(batch: EventBatch, i: number, time: number): Decision {
    this.limiter.progress.see(time)
    return this.#onLate(this.take(batch, i, time))
  }

  #onLate(taken: Decision): Decision {
    return taken === LATE && this.#options.onLate === 'discard' ? TOO_LATE : taken
  }

  /** Decides one event at a time that is believed. */
  decideOne(batch: EventBatch, i: number, time: number): Decision {
    return this.isExcluded(batch, i) ? EXCLUDED : this.#decideAt(batch, i, time)
  }

  /** Buckets in memory, without the default one. */
  get buckets(): number {
    this.limiter.rest(this.#clock.now())
    return this.limiter.keys
  }
}
