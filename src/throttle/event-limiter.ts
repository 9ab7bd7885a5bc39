import { CountedEventWindows } from './event-counted.js'
import { SlidingEventWindows } from './event-sliding.js'
import type { EventWindows, TakenInTime } from './event-windows.js'
import type { Room } from './kept.js'
import { KeyedBuckets } from './keyed-buckets.js'
import { FULL, type LimiterOptions } from './keyed-limiter.js'
import { Progress } from './progress.js'

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
