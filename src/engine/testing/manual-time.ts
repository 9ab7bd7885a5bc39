import { type after, type Clock, nextTurn } from '../../lib/time.js'

/** A clock with timers. It stands still until `advance`. */
export class ManualTime implements Clock {
  #now = 0
  #timers: { at: number; fn: () => void }[] = []

  now(): number {
    return this.#now
  }

  wall(): number {
    return 1_700_000_000_000 + this.#now
  }

  readonly after: typeof after = (ms, fn) => {
    const timer = { at: this.#now + ms, fn }
    this.#timers.push(timer)
    return () => {
      this.#timers = this.#timers.filter(other => other !== timer)
    }
  }

  get timers(): number {
    return this.#timers.length
  }

  /** When the next timer is due; undefined if none is set. */
  get next(): number | undefined {
    return this.#timers.length === 0 ? undefined : Math.min(...this.#timers.map(({ at }) => at))
  }

  /** Moves the clock by `ms` milliseconds. Runs each timer at its time. */
  async advance(ms: number): Promise<void> {
    const until = this.#now + ms
    await settle()
    for (let at = this.next; at !== undefined && at <= until; at = this.next) {
      this.#now = Math.max(this.#now, at)
      const due = this.#timers.filter(timer => timer.at <= this.#now)
      this.#timers = this.#timers.filter(timer => timer.at > this.#now)
      for (const { fn } of due) fn()
      await settle()
    }
    this.#now = until
  }
}

/** Lets promises and streams do all that they can do now. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 3; i++) await nextTurn()
}
