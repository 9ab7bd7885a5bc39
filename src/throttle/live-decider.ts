import type { EventBatch } from '../core/event/batch.js'
import type { Clock } from '../lib/time.js'
import { Decider, type DeciderOptions, type KeyedLimiter } from './decider.js'
import { EventDecider, EventLimiter } from './event-decider.js'

/** How far the wall clock may drift before aligned windows follow it. */
const DRIFT_MS = 1000

/** The open windows of a LiveDecider, for its successor. */
export class OpenWindows {
  readonly limiter: KeyedLimiter
  /** Wall clock minus monotonic clock, in milliseconds. */
  readonly epoch: number

  constructor(limiter: KeyedLimiter, epoch: number) {
    this.limiter = limiter
    this.epoch = epoch
  }
}

/**
 * A Decider in clock time: the monotonic clock, so that setting the clock has no effect. Aligned windows start at
 * multiples since the epoch, so they do follow the wall clock, at most a second late.
 */
export class LiveDecider {
  readonly #options: DeciderOptions
  readonly #clock: Clock
  #decider: Decider
  /** Wall clock minus monotonic clock, in milliseconds. */
  #epoch: number

  /** `before`: the windows of a predecessor with the same options. */
  constructor(options: DeciderOptions, clock: Clock, before?: OpenWindows) {
    this.#options = options
    this.#clock = clock
    this.#decider = new Decider(options, before?.limiter)
    this.#epoch = before?.epoch ?? clock.wall() - clock.now()
  }

  /** Decides all events of a batch at the current time; the result is valid until the next call. */
  decide(batch: EventBatch): Pick<Decider, 'decisions' | 'counts'> {
    const now = this.#now()
    this.#decider.decide(batch, now)
    return this.#decider
  }

  /** The windows for a successor with the same options. */
  get windows(): OpenWindows {
    return new OpenWindows(this.#decider.limiter, this.#epoch)
  }

  /** Number of buckets in memory, without the default one. */
  get buckets(): number {
    this.#decider.limiter.advance(this.#now())
    return this.#decider.limiter.keys
  }

  #now(): number {
    const now = this.#clock.now()
    if (this.#options.mode !== 'aligned') return now
    const epoch = this.#clock.wall() - now
    if (Math.abs(epoch - this.#epoch) > DRIFT_MS) {
      // The clock was set, or the machine slept. If set back, open windows would last until the old time is reached again.
      if (epoch < this.#epoch) this.#decider = new Decider(this.#options)
      this.#epoch = epoch
    }
    return now + this.#epoch
  }
}

/** A decider for batches in order of arrival. */
export type BatchDecider = LiveDecider | EventDecider

/**
 * Creates a decider in event time if the options say so, otherwise in clock time. `before`: the result of `windowsOf`
 * for a predecessor with the same options.
 */
export function createDecider(options: DeciderOptions, clock: Clock, before?: unknown): BatchDecider {
  if (!options.eventTime) return new LiveDecider(options, clock, before instanceof OpenWindows ? before : undefined)
  return new EventDecider(options, options.eventTime, clock, before instanceof EventLimiter ? before : undefined)
}

/** The windows of a decider, for a successor with the same options, without references to the decider. */
export function windowsOf(decider: BatchDecider): OpenWindows | EventLimiter {
  return decider instanceof LiveDecider ? decider.windows : decider.limiter
}
