import { BoundedMap } from '../../../lib/bounded-map.js'
import type { StateReader, StateWriter } from '../persist/state-bytes.js'

/** At most this much of a pause counts as elapsed time, so that an outage does not make origins inactive. */
const LONGEST_PAUSE_MS = 1000
/** An origin is inactive after this time without an event. `oldest` then ignores this origin. */
const ACTIVE_MS = 60_000
/** Maximum number of tracked origins. Each HTTP request is an origin. If more appear, the oldest origin is dropped. */
const MOST_ORIGINS = 10_000
/** Maximum number of origins checked per batch, on average. */
const LOOKED_AT_PER_BATCH = 8

interface Reached {
  readonly origin: object
  newest: number
  /** The value of `#elapsed` when the last event of the origin arrived. */
  at: number
}

/**
 * Tracks the progress of event times for each origin (a file, a connection) separately, because one origin may read old
 * events while others read new events. An event is late if the newest events of its origin and of its bucket are both
 * newer than it by more than the allowed lateness. So an event in order within its origin, or within its bucket, is not
 * late.
 */
export class EventProgress {
  /** The time that every active origin has reached. Decreases when an origin with earlier events appears. */
  oldest = Number.NEGATIVE_INFINITY
  readonly latenessMs: number
  readonly #origins = new BoundedMap<object, Reached>(MOST_ORIGINS)
  /** Represents the origins that existed before a restart. Dropped when the same number of new origins has appeared. */
  readonly #earlier = {}
  #earlierCount = Number.POSITIVE_INFINITY
  #current: Reached = { origin: this, newest: Number.NEGATIVE_INFINITY, at: 0 }
  /** Elapsed time in milliseconds. Each pause adds at most LONGEST_PAUSE_MS. */
  #elapsed = 0
  #enteredAt = Number.NaN
  #batches = 0

  constructor(latenessMs: number) {
    this.latenessMs = latenessMs
  }

  /** Starts a batch from `origin`. `clock` is monotonic. `arrival` is the batch's arrival by the wall clock. */
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

  /** Records the time of an event of the current origin. */
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

  /** Writes the progress of the active origins, to be read after a restart. */
  write(to: StateWriter): void {
    to.number(this.oldest)
    to.whole(this.#origins.has(this.#earlier) ? this.#earlierCount : this.#origins.size)
  }

  /**
   * Reads the saved progress. Call this before the first event, because an origin that lags behind may resume after the
   * other origins.
   */
  read(from: StateReader): void {
    this.oldest = from.number()
    this.#earlierCount = from.whole()
    this.#origins.set(this.#earlier, { origin: this.#earlier, newest: this.oldest, at: 0 })
  }

  /** Milliseconds since the last batch arrived. */
  silentMs(clock: number): number {
    return clock - this.#enteredAt
  }

  /** Events of the current origin are late if before the returned time. `newest`: the newest time in their bucket. */
  lateBefore(newest: number): number {
    return Math.min(newest, this.#current.newest) - this.latenessMs
  }

  /** Events before the returned time are late in every active origin. `newest`: the newest time in their bucket. */
  keptFrom(newest: number): number {
    return Math.min(newest, this.oldest) - this.latenessMs
  }
}
