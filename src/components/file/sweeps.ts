import type { BigIntStats } from 'node:fs'

/** Interval between folder searches for files whose names do not match. They may have grown after their release. */
const THOROUGH_MS = 600_000

/** Tracks when sweeps started. Sweeps that fail do not count. */
export class Sweeps {
  number = 0
  isFirst = true
  /** When the first sweep began, wall clock in milliseconds. */
  #startedAt = Number.POSITIVE_INFINITY
  thoroughAt = 0
  /** Start times of the last three sweeps, the latest first, wall clock in milliseconds. */
  #began: readonly number[]

  constructor(lookedAt: number) {
    this.#began = [lookedAt]
  }

  /** `now`: wall clock in milliseconds. `isWhole`: whether the sweep observes all rotations. */
  async run(now: number, sweep: () => Promise<void>, isWhole = true): Promise<void> {
    const before = this.#began
    this.number++
    this.#startedAt = Math.min(this.#startedAt, now)
    this.#began = [now, ...before].slice(0, 3)
    try {
      await sweep()
      this.isFirst = false
      if (!isWhole) this.#began = before
    } catch (error) {
      this.#began = before
      throw error
    }
  }

  /**
   * Whether a file without a position was found by the first sweep, or was last written before the first sweep began.
   */
  isAfter({ mtimeMs }: BigIntStats): boolean {
    return this.isFirst || Number(mtimeMs) < this.#startedAt
  }

  wasThorough(now: number): void {
    this.thoroughAt = now + THOROUGH_MS
  }

  get beganAt(): number {
    return this.#began[0]!
  }

  /** All rotations before this time were observed. */
  get lookedAt(): number {
    return this.#began.at(-1)!
  }
}
