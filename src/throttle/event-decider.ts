import type { EventBatch } from '../core/batch.js'
import type { Clock } from '../lib/time.js'
import {
  type DeciderOptions,
  type Decision,
  type EventTimeOptions,
  EXCLUDED,
  KeyedDecider,
  TOO_LATE,
} from './decider.js'
import { EventLimiter } from './event-limiter.js'
import { eventTime } from './event-time.js'
import { LATE, type TakenInTime } from './event-windows.js'

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
