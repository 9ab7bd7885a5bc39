import type { EventBatch } from '../core/event/batch.js'
import type { Clock } from '../lib/time.js'
import { Decider, type DeciderOptions, type KeyedLimiter } from './decider.js'
import { EventDecider, EventLimiter } from './event-decider.js'

/** How far the wall clock may drift from the aligned windows before they follow it. */
const DRIFT_MS = 1000

/** The windows that are open in the time of a clock: what goes on where another decider takes over. */
export class OpenWindows {
  readonly limiter: KeyedLimiter
  /** Wall clock minus monotonic clock. */
  readonly epoch: number

  constructor(limiter: KeyedLimiter, epoch: number) {
    this.limiter = limiter
    this.epoch = epoch
  }
}

/**
 * A Decider in the time of a clock: the monotonic one, so that a clock that is set changes nothing. Aligned windows
 * start at multiples since the epoch, and so they do follow the wall clock, a second late at most.
 */
export class LiveDecider {
  readonly #options: DeciderOptions
  readonly #clock: Clock
  #decider: Decider
  /** Wall clock minus monotonic clock. */
  #epoch: number

  /** `before`: of one with the same options, to go on with. */
  constructor(options: DeciderOptions, clock: Clock, before?: OpenWindows) {
    this.#options = options
    this.#clock = clock
    this.#decider = new Decider(options, before?.limiter)
    this.#epoch = before?.epoch ?? clock.wall() - clock.now()
  }

  /** Decides all events of a batch as of now; the result holds until the next call. */
  decide(batch: EventBatch): Pick<Decider, 'decisions' | 'counts'> {
    const now = this.#now()
    this.#decider.decide(batch, now)
    return this.#decider
  }

  /** For one with the same options. */
  get windows(): OpenWindows {
    return new OpenWindows(this.#decider.limiter, this.#epoch)
  }

  /** Buckets in memory, without the default one. */
  get buckets(): number {
    this.#decider.limiter.advance(this.#now())
    return this.#decider.limiter.keys
  }

  #now(): number {
    const now = this.#clock.now()
    if (this.#options.mode !== 'aligned') return now
    const epoch = this.#clock.wall() - now
    if (Math.abs(epoch - this.#epoch) > DRIFT_MS) {
      // The clock was set, or the machine slept. Set back, open windows would last until the old time is reached again.
      if (epoch < this.#epoch) this.#decider = new Decider(this.#options)
      this.#epoch = epoch
    }
    return now + this.#epoch
  }
}

/** What decides on batches as they come. */
export type BatchDecider = LiveDecider | EventDecider

/**
 * In the time of the events where the options say so, in that of the clock otherwise. `before`: what `windowsOf` gave of
 * one with the same options.
 */
export function createDecider(options: DeciderOptions, clock: Clock, before?: unknown): BatchDecider {
  if (!options.eventTime) return new LiveDecider(options, clock, before instanceof OpenWindows ? before : undefined)
  return new EventDecider(options, options.eventTime, clock, before instanceof EventLimiter ? before : undefined)
}

/** What a decider leaves to one with the same options: its windows, and nothing that would keep it. */
export function windowsOf(decider: BatchDecider): OpenWindows | EventLimiter {
  return decider instanceof LiveDecider ? decider.windows : decider.limiter
}
