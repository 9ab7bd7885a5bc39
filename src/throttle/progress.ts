import { BoundedMap } from '../lib/bounded-map.js'

/** A pause counts as so much: an outage is no reason to give up on anybody. */
const LONGEST_PAUSE_MS = 1000
/** After so much time without an event from it, an origin is not waited for. */
const ACTIVE_MS = 60_000
/** Beyond so many the one that came first is not waited for any more: each HTTP request is one. */
const MOST_ORIGINS = 10_000
/** Origins that may be looked at for each batch. */
const LOOKED_AT_PER_BATCH = 8

/** How far the times in one origin's events have come. */
interface Reached {
  readonly origin: object
  newest: number
  /** When something came from it, in `#elapsed`. */
  at: number
}

/**
 * How far the times of the events have come: in each origin (a file, a connection) by itself, since one may catch up
 * while others are live. An event is late when it is behind both the newest of its origin and the newest of its bucket
 * by more than the lateness that is allowed: so neither makes those late that are in order there.
 */
export class Progress {
  /** Every origin of which something came lately has reached this time. Falls when one comes that has not. */
  oldest = Number.NEGATIVE_INFINITY
  readonly latenessMs: number
  readonly #origins = new BoundedMap<object, Reached>(MOST_ORIGINS)
  #current: Reached = { origin: this, newest: Number.NEGATIVE_INFINITY, at: 0 }
  /** Milliseconds in which events came. */
  #elapsed = 0
  #enteredAt = Number.NaN
  #batches = 0

  constructor(latenessMs: number) {
    this.latenessMs = latenessMs
  }

  /** The events that are seen next are from `origin`; `clock` is monotonic, `arrival` the wall clock. */
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

  /** An event of the current origin says this time. */
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
  }

  /** How long nothing came. */
  silentMs(clock: number): number {
    return clock - this.#enteredAt
  }

  /** An event of the current origin that is earlier than this is late in a bucket whose newest event is of `newest`. */
  lateBefore(newest: number): number {
    return Math.min(newest, this.#current.newest) - this.latenessMs
  }

  /** No event of an origin that is waited for, in such a bucket, is before this and not late. */
  keptFrom(newest: number): number {
    return Math.min(newest, this.oldest) - this.latenessMs
  }
}
