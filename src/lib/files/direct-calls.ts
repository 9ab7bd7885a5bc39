import type { Clock } from '../time.js'

/** After a slow call, the number of calls made in another thread. It doubles if the next slow call follows soon. */
const LEAST_APART = 64
const MOST_APART = 1024

/**
 * Decides whether a read or write of a local file is made directly. For cached data, this takes a fraction of the time
 * of another thread, and the data stays in the processor's cache. A call that waits for a disk would block the process.
 * Therefore another thread makes the next calls after a slow one.
 */
export class DirectCalls {
  readonly #clock: Clock
  readonly #slowMs: number
  /** Calls still to be made in another thread. */
  #apart = 0
  #next = LEAST_APART
  /** Direct calls since the last slow one. */
  #fast = 0

  /** A call that takes longer than `slowMs` milliseconds is slow. */
  constructor(clock: Clock, slowMs: number) {
    this.#clock = clock
    this.#slowMs = slowMs
  }

  /** Begins a call. Returns its time, for `end`, or undefined if it must be made in another thread. */
  begin(): number | undefined {
    if (this.#apart === 0) return this.#clock.now()
    this.#apart--
    return undefined
  }

  end(began: number): void {
    if (this.#clock.now() - began <= this.#slowMs) {
      if (++this.#fast >= LEAST_APART) this.#next = LEAST_APART
      return
    }
    this.#apart = this.#next
    this.#next = Math.min(this.#next * 2, MOST_APART)
    this.#fast = 0
  }
}
