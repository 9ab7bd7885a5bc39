import type { Clock } from '../../lib/time.js'

/** An outage that is over. */
export interface PastOutage {
  readonly since: number
  readonly until: number
  readonly failures: number
  /** Of the last failed attempt. */
  readonly error: string
}

/** Failed attempts since delivery last worked, and when the next one is made. Times are those of `Clock.now`. */
export class Outage {
  readonly #clock: Clock
  readonly #next = new Map<object, number>()
  #since: number | undefined
  #lastAt = 0
  #failures = 0
  #error = ''
  #past: PastOutage | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  failed(error: string): void {
    this.#error = error
    this.#lastAt = this.#clock.now()
    this.#since ??= this.#lastAt
    this.#failures++
  }

  /** `who` makes its next attempt then. */
  waits(who: object, until: number): void {
    this.#next.set(who, until)
  }

  /** `who` does not wait any more. */
  tries(who: object): void {
    this.#next.delete(who)
  }

  /** Delivery works. */
  ended(): void {
    if (this.#since === undefined) return
    const until = this.#clock.now()
    this.#past = { since: this.#since, until, failures: this.#failures, error: this.#error }
    this.#since = undefined
    this.#failures = 0
  }

  /** The last outage that is over; undefined: there was none. */
  get past(): PastOutage | undefined {
    return this.#past
  }

  /** When the next of those who wait makes an attempt; undefined: nobody waits. */
  get nextAt(): number | undefined {
    return this.#next.size > 0 ? Math.min(...this.#next.values()) : undefined
  }

  /** Undefined while delivery works. */
  get failures(): { readonly since: number; readonly lastAt: number; readonly count: number } | undefined {
    return this.#since === undefined ? undefined : { since: this.#since, lastAt: this.#lastAt, count: this.#failures }
  }
}
