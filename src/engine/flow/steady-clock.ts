import type { TimerClock } from '../../lib/time.js'

/**
 * A clock that can be stopped for a moment. A processor then sees the same time for waiting events and for an arriving
 * batch. Otherwise, the batch could overtake waiting events that become due between the two decisions.
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

/** Calls `work`. If the clock is a SteadyClock, it stands still during the call. */
export function atOneTime(clock: TimerClock, work: () => void): void {
  if (clock instanceof SteadyClock) clock.during(work)
  else work()
}
