import type { TimerClock } from '../../lib/time.js'

/** Start time of a test: a full hour, day and year, which aligned windows start at. */
const FIRST_TIME = Date.UTC(2026, 0, 1)

interface Timer {
  readonly at: number
  readonly fn: () => void
}

/** A clock that stands still until it is set. */
export class StepClock implements TimerClock {
  #at = 0
  #timers: Timer[] = []

  now(): number {
    return this.#at
  }

  wall(): number {
    return FIRST_TIME + this.#at
  }

  after(ms: number, fn: () => void): () => void {
    const timer = { at: this.#at + ms, fn }
    this.#timers.push(timer)
    return () => this.#remove(timer)
  }

  #remove(timer: Timer): void {
    this.#timers = this.#timers.filter(other => other !== timer)
  }

  /** When the next timer is due; Infinity: there is none. */
  get next(): number {
    return Math.min(...this.#timers.map(({ at }) => at))
  }

  /** Sets the time, unless it is later already, and fires the timers that are due. */
  goTo(time: number): void {
    if (!Number.isFinite(time)) throw new Error('events wait for something that never comes')
    this.#at = Math.max(this.#at, time)
    for (const timer of this.#timers.toSorted((a, b) => a.at - b.at)) {
      if (timer.at > this.#at || !this.#timers.includes(timer)) continue
      this.#remove(timer)
      timer.fn()
    }
  }
}
