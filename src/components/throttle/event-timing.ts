import type { EventBatch } from '../../core/event/batch.js'
import { BoundedMap } from '../../lib/bounded-map.js'
import type { Clock } from '../../lib/time.js'
import { Decider, type DeciderOptions, type EventTimeOptions } from './decider.js'
import { type Decision, LATE, TOO_LATE } from './decisions.js'
import { GcraEventWindows } from './event-gcra.js'
import { CountedEventWindows } from './event-limits.js'
import { SlidingEventWindows } from './event-sliding.js'
import { latestTime } from './event-time.js'
import { Room } from './kept-rows.js'
import type { Limit } from './limit.js'
import { Limiter, type Timing } from './limiter.js'
import { periodsOf, sideBySide } from './several-windows.js'
import type { StateReader, StateWriter } from './state-bytes.js'
import type { LimitWindows, Windows } from './windows.js'

/** Maximum length of a pause that counts as elapsed time, so that an outage does not make origins inactive. */
const LONGEST_PAUSE_MS = 1000
/** An origin without an event for this long is inactive and no longer waited for. */
const ACTIVE_MS = 60_000
/** Maximum number of origins waited for; beyond it the oldest is dropped. Each HTTP request is an origin. */
const MOST_ORIGINS = 10_000
/** Number of origins that may be checked per batch. */
const LOOKED_AT_PER_BATCH = 8

/** The progress of event times in one origin. */
interface Reached {
  readonly origin: object
  newest: number
  /** When its last event arrived, in `#elapsed`. */
  at: number
}

/**
 * Tracks the progress of event times for each origin (a file, a connection) separately, because one may catch up while
 * others are live. An event is late if it is more than the allowed lateness behind both the newest event of its origin
 * and the newest of its bucket. So events that are in order in either are not late.
 */
export class Progress {
  /** The time that every active origin has reached. Decreases when an origin with earlier events appears. */
  oldest = Number.NEGATIVE_INFINITY
  readonly latenessMs: number
  readonly #origins = new BoundedMap<object, Reached>(MOST_ORIGINS)
  /** Stands for the origins of an earlier run, until as many others have begun. */
  readonly #earlier = {}
  #earlierCount = Number.POSITIVE_INFINITY
  #current: Reached = { origin: this, newest: Number.NEGATIVE_INFINITY, at: 0 }
  /** Milliseconds in which events arrived. */
  #elapsed = 0
  #enteredAt = Number.NaN
  #batches = 0

  constructor(latenessMs: number) {
    this.latenessMs = latenessMs
  }

  /** Starts a batch from `origin`; `clock` is monotonic, `arrival` is the wall clock. */
  enter(origin: object, clock: number, arrival: number): void {
    const pause = clock - this.#enteredAt
    if (pause > 0) this.#elapsed += Math.min(pause, LONGEST_PAUSE_MS)
    this.#enteredAt = clock
    if (++this.#batches * LOOKED_AT_PER_BATCH >= this.#origins.size) this.#look()
    if (this.#origins.size === 0) this.oldest = arrival
    this.#current = this.#origins.get(origin) ?? { origin, newest: Number.NEGATIVE_INFINITY, at: 0 }
  }

  #look(): void {
    this.#batches = 0
    let oldest = Number.POSITIVE_INFINITY
    for (const [origin, { newest, at }] of this.#origins) {
      if (this.#elapsed - at >= ACTIVE_MS) this.#origins.delete(origin)
      else if (newest < oldest) oldest = newest
    }
    if (this.#origins.size > 0) this.oldest = oldest
  }

  /** Registers an event time of the current origin. */
  see(time: number): void {
    const current = this.#current
    current.at = this.#elapsed
    if (time <= current.newest) return
    if (current.newest === Number.NEGATIVE_INFINITY) this.#join(current, time)
    current.newest = time
    if (this.#origins.size === 1) this.oldest = time
  }

  #join(reached: Reached, time: number): void {
    this.#origins.set(reached.origin, reached)
    this.oldest = Math.min(this.oldest, time)
    if (this.#origins.size > this.#earlierCount) this.#origins.delete(this.#earlier)
  }

  /** Writes how far the active origins have come, for a later run. */
  write(to: StateWriter): void {
    to.number(this.oldest)
    to.whole(this.#origins.has(this.#earlier) ? this.#earlierCount : this.#origins.size)
  }

  /** Reads it, before the first event: an origin that is behind may go on later than others. */
  read(from: StateReader): void {
    this.oldest = from.number()
    this.#earlierCount = from.whole()
    this.#origins.set(this.#earlier, { origin: this.#earlier, newest: this.oldest, at: 0 })
  }

  /** How long no event has arrived, in milliseconds. */
  silentMs(clock: number): number {
    return clock - this.#enteredAt
  }

  /** Events of the current origin before this time are late in a bucket whose newest event is at `newest`. */
  lateBefore(newest: number): number {
    return Math.min(newest, this.#current.newest) - this.latenessMs
  }

  /** Events of active origins before this time are late in a bucket whose newest event is at `newest`. */
  keptFrom(newest: number): number {
    return Math.min(newest, this.oldest) - this.latenessMs
  }
}

/** What all windows of a throttle share. */
export interface Shared {
  readonly progress: Progress
  readonly room: Room
}

/** How much longer than necessary a bucket is kept while no event arrives, so that an outage does not forget it. */
const SILENCE_MS = 3_600_000

/**
 * Event time: an event counts at its own time, and a bucket is idle when no active origin can have an event for it, except
 * a late one. An event without a valid time, or with a time ahead of the clock by more than the allowed lateness, counts at
 * its arrival. So a single wrong time does not make other events late.
 */
export class EventTiming implements Timing, Shared {
  readonly progress: Progress
  readonly room = new Room()
  readonly graceMs: number
  readonly keepsUsed = true
  /** Events of the last batch whose time cannot be read, or is too far ahead. */
  unreadable = 0
  ahead = 0
  readonly #onLate: EventTimeOptions['onLate']
  #time: EventTimeOptions['time']
  /** When the batch arrived, by the wall clock, and the latest time accepted then. */
  #arrival = 0
  #latest = 0

  constructor({ time, latenessMs, onLate }: EventTimeOptions) {
    this.#time = time
    this.#onLate = onLate
    this.graceMs = latenessMs
    this.progress = new Progress(latenessMs)
  }

  /** Reads times by the fields of a successor. */
  setTime(time: EventTimeOptions['time']): void {
    this.#time = time
  }

  windows(limits: readonly Limit[]): Windows {
    return sideBySide(
      limits.map((limit): LimitWindows => {
        if (limit.mode === 'gcra') return new GcraEventWindows(limit, this)
        if (limit.mode === 'sliding') return new SlidingEventWindows(limit, this)
        return new CountedEventWindows(limit, periodsOf(limit), this)
      }),
      this.#onLate === 'pass',
    )
  }

  present(): number {
    return this.progress.oldest
  }

  /** Starts a batch, before the decisions about it. `now` is monotonic. */
  begin(batch: EventBatch, now: number, wall: number): void {
    this.unreadable = 0
    this.ahead = 0
    // Events created by a program have no arrival time.
    this.#arrival = batch.receivedAt || wall
    this.#latest = latestTime(this.#arrival, this.graceMs)
    this.progress.enter(batch.origin, now, this.#arrival)
  }

  /** The time at which event `i` counts, for its decision. */
  next(batch: EventBatch, i: number): number {
    const time = this.#time.of(batch, i)
    if (time <= this.#latest) {
      this.progress.see(time)
      return time
    }
    if (Number.isNaN(time)) this.unreadable++
    else this.ahead++
    return this.#arrival
  }

  /** The time at which event `i` of the last batch counts. */
  timeOf(batch: EventBatch, i: number): number {
    const time = this.#time.of(batch, i)
    return time <= this.#latest ? time : this.#arrival
  }

  decisionOn(taken: Decision): Decision {
    return taken === LATE && this.#onLate === 'discard' ? TOO_LATE : taken
  }

  /** Drops buckets if no event has arrived for very long, by a monotonic clock. */
  rest(limiter: Limiter, now: number): void {
    limiter.dropUnused(this.progress.silentMs(now) - SILENCE_MS)
  }
}

/** Decides in event time. `before`: the limiter of a predecessor with the same options. */
export function createEventDecider(
  options: DeciderOptions,
  eventTime: EventTimeOptions,
  clock: Clock,
  before?: unknown,
): Decider {
  const known = before instanceof Limiter && before.timing instanceof EventTiming ? before : undefined
  known?.timing.setTime(eventTime.time)
  return new Decider(options, clock, known ?? new Limiter(options, new EventTiming(eventTime)))
}
