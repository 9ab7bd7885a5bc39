import { sleep, type TimerClock } from '../../../lib/time.js'

/** Milliseconds for which the work on an answer runs before a pause. */
const SLICE_MS = 5
/** The duration of a pause divided by the working time before the pause. */
const OTHERS = 3
/** Maximum pause for one slice, in milliseconds. */
const LONGEST_MS = 250

/**
 * Call this between portions of the work on an answer. If this returns a promise, wait for it before the next portion.
 * Otherwise continue immediately.
 */
export type Turn = () => Promise<void> | undefined

/** Limits all answers together to a quarter of the time of the process. */
export class Budget {
  readonly #clock: TimerClock
  /** When the pauses for all work until now are over. */
  #paidAt = Number.NEGATIVE_INFINITY

  constructor(clock: TimerClock) {
    this.#clock = clock
  }

  answer(): Turn {
    let since = this.#clock.now()
    return () => {
      const now = this.#clock.now()
      if (now - since < SLICE_MS) return undefined
      this.#paidAt = Math.max(this.#paidAt, now) + Math.min(LONGEST_MS, OTHERS * (now - since))
      return sleep(this.#paidAt - now, undefined, this.#clock.after).then(() => {
        since = this.#clock.now()
      })
    }
  }
}
