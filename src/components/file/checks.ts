import type { Clock } from '../../lib/time.js'

/** A file or folder that has not changed for this time is quiet. If it is watched, a check every CHECK_MS is enough. */
const QUIET_MS = 60_000
const CHECK_MS = 8000

/** Tracks when a file or folder was checked for changes. */
export class CheckTimes {
  readonly #clock: Clock
  #at = Number.NEGATIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Whether no check is needed now. `quietSince`: the time of the last change, on the monotonic clock. */
  suffice(quietSince: number): boolean {
    const now = this.#clock.now()
    return now - this.#at < CHECK_MS && now - quietSince >= QUIET_MS
  }

  check(): void {
    this.#at = this.#clock.now()
  }

  /** Called when a watch has reported a change, so that the next check is not skipped. */
  report(): void {
    this.#at = Number.NEGATIVE_INFINITY
  }
}
