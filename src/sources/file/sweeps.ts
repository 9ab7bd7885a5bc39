/** How often the folders are searched for files without a matching name: one may have been written to after it was released. */
const THOROUGH_MS = 600_000

/** When sweeps began. One that does not come to its end counts for nothing. */
export class Sweeps {
  /** The number of the one that is under way, or was last. */
  number = 0
  /** None has come to its end. */
  isFirst = true
  /** The next one has to be thorough at this time. */
  thoroughAt = 0
  /** When the last three began, the latest first, wall clock in milliseconds. */
  #began: readonly number[]

  /** `lookedAt`: when the last run looked. */
  constructor(lookedAt: number) {
    this.#began = [lookedAt]
  }

  /** `now`: wall clock in milliseconds. */
  async run(now: number, sweep: () => Promise<void>): Promise<void> {
    const before = this.#began
    this.number++
    this.#began = [now, ...before].slice(0, 3)
    try {
      await sweep()
      this.isFirst = false
    } catch (error) {
      this.#began = before
      throw error
    }
  }

  wasThorough(now: number): void {
    this.thoroughAt = now + THOROUGH_MS
  }

  get beganAt(): number {
    return this.#began[0]!
  }

  /** What was rotated before this time was seen. */
  get lookedAt(): number {
    return this.#began.at(-1)!
  }
}
