import type { Clock } from '../time.js'

/** After a slow call, another thread makes this many calls. The number doubles if the next slow call follows soon. */
const LEAST_APART = 64
const MOST_APART = 1024

/**
 * Decides whether this thread or another thread reads or writes a local file. For cached data, a direct call takes only
 * a fraction of the time of a call in another thread, and the data stays in the CPU cache. But a direct call that waits
 * for a disk blocks the process. Therefore, another thread makes the next calls after a slow call.
 */
export class DirectCalls {
  readonly #clock: Clock
  readonly #slowMs: number
  /** How many calls another thread still has to make. */
  #apart = 0
  #next = LEAST_APART
  /** Direct calls since the last slow one. */
  #fast = 0

  /** A call that takes longer than `slowMs` milliseconds is slow. */
  constructor(clock: Clock, slowMs: number) {
    this.#clock = clock
    this.#slowMs = slowMs
  }

  /** Begins a call. Returns its start time, for `end`; undefined if another thread must make it. */
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
