/** A source of random numbers in [0, 1). Tests pass their own. */
export type Random = () => number

export const systemRandom: Random = () => Math.random()

/**
 * Computes the waiting times between attempts, with full jitter. Each time is random between 0 and a ceiling. The
 * ceiling doubles with each attempt, up to a maximum.
 */
export class Backoff {
  readonly #initialMs: number
  readonly #maxMs: number
  readonly #random: Random
  #ceilingMs: number

  constructor(initialMs: number, maxMs: number, random: Random) {
    this.#initialMs = Math.min(initialMs, maxMs)
    this.#maxMs = maxMs
    this.#random = random
    this.#ceilingMs = this.#initialMs
  }

  /** Returns the milliseconds to wait before the next attempt. */
  next(): number {
    const waitMs = this.#random() * this.#ceilingMs
    this.#ceilingMs = Math.min(this.#maxMs, this.#ceilingMs * 2)
    return waitMs
  }

  /** Starts again from the initial ceiling. Call it after a success. */
  reset(): void {
    this.#ceilingMs = this.#initialMs
  }
}
