import type { ThrottleOptions } from '../../components/processors/throttle/options.js'
import { AutoTime } from '../../components/throttle/event/auto-time.js'
import type { EventBatch } from '../../core/event/batch.js'
import { systemClock } from '../../lib/time.js'
import { createTrialDecider, type TrialDecider } from './simulate/trial.js'
import type { FieldContext } from './simulate/trials.js'
import { count } from './simulate/words.js'

/**
 * Decides on the lines of a file, which were written before they are read. As in `simulate`, each event counts at its
 * own time, and an event without a time counts at the time of the previous one. Until a time is found, the clock counts.
 */
export class FileDecider {
  decisions = new Uint8Array(1024)
  /** The time at which each event of the last batch counted. */
  times = new Float64Array(1024)
  readonly #decider: TrialDecider
  readonly #time: AutoTime
  #now: number | undefined
  #events = 0
  #timeless = 0

  constructor(options: ThrottleOptions, context: FieldContext) {
    this.#time = new AutoTime(context)
    this.#decider = createTrialDecider(options, context)
  }

  decide(batch: EventBatch): this {
    const { length } = batch
    if (this.times.length < length) {
      this.times = new Float64Array(length * 2)
      this.decisions = new Uint8Array(length * 2)
    }
    const clock = systemClock.now()
    this.#events += length
    this.#decider.enter(batch)
    for (let i = 0; i < length; i++) {
      const time = this.#time.of(batch, i)
      if (Number.isNaN(time)) this.#timeless++
      else this.#now = time
      const now = this.#now ?? clock
      this.times[i] = now
      this.decisions[i] = this.#decider.decide(batch, i, now)
    }
    return this
  }

  /** A warning if events have no time. */
  get warning(): string | undefined {
    if (this.#timeless === 0) return undefined
    if (this.#now === undefined)
      return 'no event has a time, so all count when they are read: name the field with --time'
    return `${count(this.#timeless, 'event')} without a time: each counts at the time of the previous event`
  }
}
