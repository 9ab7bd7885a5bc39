import type { Clock } from '../../lib/time.js'

/** What has not changed for this long is quiet: while a watch would report a change, checking it now and then is enough. */
const QUIET_MS = 60_000
const CHECK_MS = 8000

/** When something was checked for changes. */
export class Checks {
  readonly #clock: Clock
  #at = Number.NEGATIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Whether what has not changed since `quietSince`, on the monotonic clock, need not be checked now. */
  suffice(quietSince: number): boolean {
    const now = this.#clock.now()
    return now - this.#at < CHECK_MS && now - quietSince >= QUIET_MS
  }

  /** Registers that it is being checked. */
  check(): void {
    this.#at = this.#clock.now()
  }

  /** Registers that a watch reported a change. */
  report(): void {
    this.#at = Number.NEGATIVE_INFINITY
  }
}
