import type { Clock } from '../../lib/time.js'

/** An outage that is over. */
export interface PastOutage {
  readonly since: number
  readonly until: number
  readonly failures: number
  /** Of the last failed attempt. */
  readonly error: string
}

interface Failures {
  readonly since: number
  readonly lastAt: number
  readonly count: number
}

/** What a delivery passes to the one that replaces it, so that an outage keeps its begin and its count. */
export interface OutageState {
  readonly failures: Failures | undefined
  readonly error: string
  /** Whether events failed, and not only the start of the destination. */
  readonly isOfEvents: boolean
  /** Whether the log has mentioned it. */
  readonly isLogged: boolean
  readonly past: PastOutage | undefined
}

/** Failed attempts since delivery last worked, and when the next one is made. Times are those of `Clock.now`. */
export class Outage {
  readonly #clock: Clock
  readonly #next = new Map<object, number>()
  #failures: Failures | undefined
  #isInherited: boolean
  #isOfEvents = false
  #error = ''
  #past: PastOutage | undefined
  isLogged = false

  constructor(clock: Clock, inherited?: OutageState) {
    this.#clock = clock
    this.#failures = inherited?.failures
    this.#isInherited = this.#failures !== undefined
    this.#past = inherited?.past
    if (!inherited || !this.#isInherited) return
    this.#error = inherited.error
    this.#isOfEvents = inherited.isOfEvents
    this.isLogged = inherited.isLogged
  }

  failed(error: string, isOfEvents: boolean): void {
    const lastAt = this.#clock.now()
    const { since, count } = this.#failures ?? { since: lastAt, count: 0 }
    this.#failures = { since, lastAt, count: count + 1 }
    this.#error = error
    this.#isOfEvents ||= isOfEvents
    this.#isInherited = false
  }

  /** `who` makes its next attempt then. */
  waits(who: object, until: number): void {
    this.#next.set(who, until)
  }

  /** `who` does not wait any more. */
  tries(who: object): void {
    this.#next.delete(who)
  }

  /**
   * Something works: with `isOfEvents` delivery itself, otherwise the start of the destination, which proves nothing about
   * events that failed before a reload. Returns the outage that ends with that.
   */
  worked(isOfEvents: boolean): PastOutage | undefined {
    if (!this.#failures || (this.#isOfEvents && !isOfEvents)) return undefined
    const { since, count: failures } = this.#failures
    this.#past = { since, until: this.#clock.now(), failures, error: this.#error }
    this.#failures = undefined
    this.#isInherited = false
    this.#isOfEvents = false
    return this.#past
  }

  /** What failed before this delivery took over from another one; undefined once an attempt of its own has failed or worked. */
  get inheritedError(): string | undefined {
    return this.#isInherited ? this.#error : undefined
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
  get failures(): Failures | undefined {
    return this.#failures
  }

  get state(): OutageState {
    const { isLogged } = this
    return { failures: this.#failures, error: this.#error, isOfEvents: this.#isOfEvents, isLogged, past: this.#past }
  }
}
