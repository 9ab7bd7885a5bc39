import { sleep, type TimerClock } from '../../../lib/time.js'
import { Gone, Refusal } from '../../../net/http/server/refusal.js'

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

/** Maximum number of answers under way. Half of it is for clients with the token. */
const MOST_ANSWERS = 16
/** Milliseconds for which equal questions get the same answer. */
const SHARED_MS = 300

/** Limits all answers together to a quarter of the time of the process. */
export class Budget {
  readonly #clock: TimerClock
  /** When the pauses for all work until now are over. */
  #paidAt = Number.NEGATIVE_INFINITY
  #answers = 0
  readonly #shared = new Map<string, Promise<unknown>>()

  constructor(clock: TimerClock) {
    this.#clock = clock
  }

  /**
   * Does all work on an answer. `isGone`: whether its client has disconnected. Throws Gone, or a Refusal if too many
   * answers are under way.
   */
  async answer<T>(hasToken: boolean, work: (turn: Turn) => Promise<T>, isGone = () => false): Promise<T> {
    if (this.#answers >= (hasToken ? MOST_ANSWERS : MOST_ANSWERS / 2))
      throw new Refusal(503, 'too_many', 'too many requests; try again in a second', { 'retry-after': '1' })
    this.#answers++
    let since = this.#clock.now()
    const pay = () => {
      const now = this.#clock.now()
      this.#paidAt = Math.max(this.#paidAt, now) + Math.min(LONGEST_MS, OTHERS * (now - since))
    }
    const begin = async () => {
      // Another answer may have worked during the pause.
      for (let ms = 0; (ms = this.#paidAt - this.#clock.now()) > 0; ) await sleep(ms, undefined, this.#clock.after)
      since = this.#clock.now()
      if (isGone()) throw new Gone()
    }
    const turn = () => {
      if (this.#clock.now() - since < SLICE_MS) return undefined
      pay()
      return begin()
    }
    try {
      await begin()
      return await work(turn)
    } finally {
      pay()
      this.#answers--
    }
  }

  /** Like `answer`. Answers equal questions together. */
  shared<T>(question: string, hasToken: boolean, work: (turn: Turn) => Promise<T>): Promise<T> {
    const key = `${hasToken} ${question}`
    const known = this.#shared.get(key)
    if (known) return known as Promise<T>
    const answer = this.answer(hasToken, work)
    this.#shared.set(key, answer)
    const forget = () => void this.#shared.delete(key)
    answer.then(() => this.#clock.after(SHARED_MS, forget), forget)
    return answer
  }
}
