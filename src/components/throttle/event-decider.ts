import type { EventBatch } from '../../core/event/batch.js'
import type { Clock } from '../../lib/time.js'
import type { PlacedKey } from './bucket-part.js'
import { BucketRoom } from './bucket-room.js'
import { type DeciderOptions, type EventTimeOptions, KeyedDecider, type Refusal } from './decider.js'
import { type Decision, EXCLUDED, TOO_LATE } from './decisions.js'
import { createEventWindows } from './event-several.js'
import { type EventWindows, LATE, Progress, type TakenInTime } from './event-windows.js'
import { KeyedBuckets } from './keyed-buckets.js'
import type { Level } from './limit.js'
import { FULL, type LimiterOptions } from './limiter.js'
import { Room } from './row-room.js'
import { keepOnly, type Rule } from './rules.js'

/** How much longer than necessary a bucket is kept while no event arrives, so that an outage does not forget it. */
const SILENCE_MS = 3_600_000

/** Windows by key in event time. A bucket is idle when no active origin can have an event for it, except a late one. */
export class EventLimiter {
  readonly progress: Progress
  readonly room: Room
  /** Of the hashes of keys. */
  readonly seed: number
  readonly #default: EventWindows
  readonly #buckets: KeyedBuckets<EventWindows>
  readonly #longestSilenceMs: number
  readonly #options: LimiterOptions
  readonly #time: Omit<EventTimeOptions, 'time'>
  readonly #keys: BucketRoom
  readonly #ofRules = new Map<string, EventLimiter>()

  /** `parent`: for the limiter of a rule. */
  constructor(options: LimiterOptions, time: Omit<EventTimeOptions, 'time'>, parent?: EventLimiter) {
    const { limits, maxKeys, seed, persists } = options
    const { latenessMs, onLate } = time
    this.#options = options
    this.seed = seed
    this.#time = time
    this.room = parent?.room ?? new Room()
    this.#keys = parent ? parent.#keys : new BucketRoom(maxKeys)
    const progress = parent?.progress ?? new Progress(latenessMs)
    const create = () => createEventWindows(limits, onLate === 'pass', { progress, room: this.room })
    this.progress = progress
    this.#default = create()
    const idleMs = this.#default.longestMs + latenessMs
    const bounds = { idleMs, maxKeys, keepsUsed: true, notesChanges: persists }
    this.#buckets = new KeyedBuckets(bounds, create, this.#keys)
    this.#longestSilenceMs = idleMs + SILENCE_MS
  }

  /** The limiter of a rule, with buckets of its own. */
  ofRule({ id, limits }: Rule): EventLimiter {
    const limiter = this.#ofRules.get(id) ?? new EventLimiter({ ...this.#options, limits }, this.#time, this)
    this.#ofRules.set(id, limiter)
    return limiter
  }

  /** Drops the limiters of all other rules. */
  keepRules(rules: readonly Rule[]): void {
    keepOnly(this.#ofRules, rules)
  }

  release(): void {
    this.#buckets.release()
    this.#default.release()
  }

  get groups() {
    return { defaults: this.#default, buckets: this.#buckets, ofRules: this.#ofRules }
  }

  /** Number of buckets in memory, without default ones; with those of rules. */
  get keys(): number {
    return this.#keys.size
  }

  /** Number of buckets that were dropped; with those of rules. */
  get dropped(): number {
    return this.#keys.dropped
  }

  /** Number of windows in memory, without the newest of each bucket. */
  get kept(): number {
    return this.room.rows
  }

  /** Drops idle buckets. Call before the takes of a batch. */
  advance(): void {
    this.#keys.advance(this.progress.oldest)
  }

  /** Drops all buckets if no event has arrived for very long, by a monotonic clock. */
  rest(clock: number): void {
    if (this.progress.silentMs(clock) >= this.#longestSilenceMs) this.#buckets.clear()
    for (const limiter of this.#ofRules.values()) limiter.rest(clock)
  }

  /** Takes an event of the default bucket. */
  takeDefault(time: number): TakenInTime {
    return this.#default.take(0, time)
  }

  /** Takes an event of the bucket with this key. */
  take(key: PlacedKey, time: number): TakenInTime | typeof FULL {
    const id = this.#buckets.bucket(key, this.progress.oldest)
    return id < 0 ? FULL : this.#buckets.windows.take(id, time)
  }

  /** Like `takeDefault`, for an event of this cost and size. */
  takeDefaultCost(time: number, cost: number, size: number): TakenInTime {
    return this.#default.takeCost(0, time, cost, size)
  }

  /** Like `take`, for an event of this cost and size. */
  takeCost(key: PlacedKey, time: number, cost: number, size: number): TakenInTime | typeof FULL {
    const id = this.#buckets.bucket(key, this.progress.oldest)
    return id < 0 ? FULL : this.#buckets.windows.takeCost(id, time, cost, size)
  }

  /** The level of the bucket with this key; undefined if there is no room for it. */
  level(key: PlacedKey, time: number, cost: number, size: number): Level | undefined {
    const id = this.#buckets.peek(key, this.progress.oldest)
    return id < 0 ? undefined : this.#buckets.windows.level(id, time, cost, size)
  }

  levelOfDefault(time: number, cost: number, size: number): Level {
    return this.#default.level(0, time, cost, size)
  }
}

/** A time this far ahead of the clock is accepted regardless of the allowed lateness, because clocks differ. */
const AHEAD_MS = 1000
const DECISIONS = 7

/**
 * Decides in event time. An event without a valid time, or with a time ahead of the clock by more than the allowed
 * lateness, counts at its arrival. So a single wrong time does not make other events late.
 */
export class EventDecider extends KeyedDecider<TakenInTime, EventLimiter> {
  /** The decisions about the events of the last batch. */
  decisions = new Uint8Array(1024)
  /** Number of events per decision. */
  readonly counts = new Uint32Array(DECISIONS)
  /** Events of the last batch whose time cannot be read, or is too far ahead. */
  unreadable = 0
  ahead = 0
  readonly #options: EventTimeOptions
  readonly #clock: Clock
  /** When the batch arrived, by the wall clock, and the latest time accepted then. */
  #arrival = 0
  #latest = 0

  /** `limiter`: that of a predecessor with the same options. */
  constructor(options: DeciderOptions, eventTime: EventTimeOptions, clock: Clock, limiter?: EventLimiter) {
    super(options, limiter ?? new EventLimiter(options, eventTime))
    this.#options = eventTime
    this.#clock = clock
  }

  /** Decides on all events of a batch; the result is valid until the next call. */
  decide(batch: EventBatch): this {
    const length = batch.length
    if (this.decisions.length < length) this.decisions = new Uint8Array(length * 2)
    this.counts.fill(0)
    this.unreadable = 0
    this.ahead = 0
    // Events created by a program have no arrival time.
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

  /** Starts a batch, before the decisions about it. */
  enter(batch: EventBatch, clock: number, arrival: number): void {
    this.limiter.progress.enter(batch.origin, clock, arrival)
    this.limiter.advance()
  }

  /** Why event `i` of the last batch was discarded; undefined if no limit did. Slow: not for each event. */
  refusal(batch: EventBatch, i: number): Refusal | undefined {
    return this.refusalAt(batch, i, this.timeOf(batch, i))
  }

  /** The time at which event `i` of the last batch counts. */
  timeOf(batch: EventBatch, i: number): number {
    const time = this.#options.time.of(batch, i)
    return time <= this.#latest ? time : this.#arrival
  }

  #decideOne(batch: EventBatch, i: number): Decision {
    const time = this.#options.time.of(batch, i)
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

  /** Decides on one event at an accepted time. */
  decideOne(batch: EventBatch, i: number, time: number): Decision {
    return this.isExcluded(batch, i) ? EXCLUDED : this.#decideAt(batch, i, time)
  }

  /** Number of buckets in memory, without the default one. */
  get buckets(): number {
    this.limiter.rest(this.#clock.now())
    return this.limiter.keys
  }
}
