import type { TimerClock } from '../../lib/time.js'

/**
 * A clock that can stand still for a moment. A processor then decides about waiting and arriving events as of the same
 * time. Otherwise, arriving events could overtake events that become due in between.
 */
export class SteadyClock implements TimerClock {
  readonly #clock: TimerClock
  #at: number | undefined

  constructor(clock: TimerClock) {
    this.#clock = clock
  }

  now(): number {
    return this.#at ?? this.#clock.now()
  }

  wall(): number {
    return this.#clock.wall()
  }

  after(ms: number, fn: () => void): () => void {
    return this.#clock.after(ms, fn)
  }

  /** Calls `work` while the clock stands still. */
  during(work: () => void): void {
    const outer = this.#at
    this.#at = this.now()
    try {
      work()
    } finally {
      this.#at = outer
    }
  }
}

/** Calls `work`. The clock stands still meanwhile, if it is a SteadyClock. */
export function atOnce(clock: TimerClock, work: () => void): void {
  if (clock instanceof SteadyClock) clock.during(work)
  else work()
}
