import type { EventBatch } from '../core/batch.js'
import type { Clock } from '../lib/time.js'
import { Decider, type DeciderOptions } from './decider.js'
import { EventDecider } from './event-decider.js'

/** How far the wall clock may drift from the aligned windows before they follow it. */
const DRIFT_MS = 1000

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

  /** `before`: one with the same options, whose windows go on here. */
  constructor(options: DeciderOptions, clock: Clock, before?: LiveDecider) {
    this.#options = options
    this.#clock = clock
    this.#decider = new Decider(options, before ? before.#decider.limiter : undefined)
    this.#epoch = before ? before.#epoch : clock.wall() - clock.now()
  }

  /** Decides all events of a batch as of now; the result holds until the next call. */
  decide(batch: EventBatch): Pick<Decider, 'decisions' | 'counts'> {
    const now = this.#now()
    this.#decider.decide(batch, now)
    return this.#decider
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
 * In the time of the events where the options say so, in that of the clock otherwise. `before`: one with the same
 * options, whose windows go on here.
 */
export function createDecider(options: DeciderOptions, clock: Clock, before?: unknown): BatchDecider {
  if (!options.eventTime) return new LiveDecider(options, clock, before instanceof LiveDecider ? before : undefined)
  const timed = before instanceof EventDecider ? before : undefined
  return new EventDecider(options, options.eventTime, clock, timed)
}
