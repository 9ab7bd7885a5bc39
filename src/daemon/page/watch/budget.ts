import { type Clock, sleep } from '../../../lib/time.js'

/** Work before other work gets its turn, in milliseconds. */
const SLICE_MS = 5
/** How much more time other work has. */
const OTHERS = 3
/** Longest pause for one slice, in milliseconds. */
const LONGEST_MS = 250

/** Called between portions of an answer: it waits for the turn of the next one, or returns undefined to continue at once. */
export type Turn = () => Promise<void> | undefined

/** All answers together use at most a quarter of the time of the process. */
export class Budget {
  readonly #clock: Clock
  /** When all that was used is paid for. */
  #paidAt = Number.NEGATIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** For one answer. */
  answer(): Turn {
    let since = this.#clock.now()
    return () => {
      const now = this.#clock.now()
      if (now - since < SLICE_MS) return undefined
      this.#paidAt = Math.max(this.#paidAt, now) + Math.min(LONGEST_MS, OTHERS * (now - since))
      return sleep(this.#paidAt - now).then(() => {
        since = this.#clock.now()
      })
    }
  }
}
