import type { Clock } from '../../../lib/time.js'

/** A finished outage. */
export interface PastOutage {
  readonly since: number
  readonly until: number
  readonly failures: number
  /** The error of the last failed attempt. */
  readonly error: string
}

interface Failures {
  readonly since: number
  readonly lastAt: number
  readonly count: number
}

/** Passed to the successor of a delivery, to preserve the start and the failure count of an outage. */
export interface OutageState {
  readonly failures: Failures | undefined
  readonly error: string
  /** Whether events failed, rather than only the start of the destination. */
  readonly isOfEvents: boolean
  /** Whether the outage was logged. */
  readonly isLogged: boolean
  readonly past: PastOutage | undefined
}

/** Counts failed attempts since delivery last worked, and tracks the next attempt. Times are those of `Clock.now`. */
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

  /** Records when `who` makes its next attempt. */
  waits(who: object, until: number): void {
    this.#next.set(who, until)
  }

  /** Records that `who` no longer waits. */
  tries(who: object): void {
    this.#next.delete(who)
  }

  /**
   * Records a success: with `isOfEvents` of delivery, otherwise of the destination's start, which does not prove that
   * events that failed before a reload can be delivered. Returns the outage that this ends.
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

  /** The error inherited from the previous delivery; undefined after the first own attempt has failed or succeeded. */
  get inheritedError(): string | undefined {
    return this.#isInherited ? this.#error : undefined
  }

  /** The last finished outage; undefined if there is none. */
  get past(): PastOutage | undefined {
    return this.#past
  }

  /** Time of the earliest next attempt; undefined if no request waits. */
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
