/** Randomness as the code takes it: a number in [0, 1). Tests hand in their own. */
export type Random = () => number

export const systemRandom: Random = () => Math.random()

/** Waits between attempts with full jitter: each is a random part of a ceiling that doubles up to a limit. */
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

  /** Milliseconds to wait before the next attempt. */
  next(): number {
    const waitMs = this.#random() * this.#ceilingMs
    this.#ceilingMs = Math.min(this.#maxMs, this.#ceilingMs * 2)
    return waitMs
  }

  /** The trouble is over: the next wait is a first one. */
  reset(): void {
    this.#ceilingMs = this.#initialMs
  }
}
