/** How far the wall clock may drift before windows follow it. */
const DRIFT_MS = 1000

/** The wall clock. Windows that follow the calendar need it, because decisions may use another clock. */
export class WallTime {
  /** The wall clock minus the clock of the decisions, in milliseconds; 0 if decisions use the wall clock. */
  offsetMs = 0
  /** The latest wall time of a decision. Only `follow` sets it. */
  latestMs = Number.NEGATIVE_INFINITY

  /**
   * Adjusts to the wall clock, unless it has only drifted. `wall`: the wall clock at the time `now`. Returns whether
   * the wall clock was set back.
   */
  follow(now: number, wall: number): boolean {
    const before = this.offsetMs
    const offsetMs = wall - now
    // The clock was set, or the machine slept.
    if (Math.abs(offsetMs - before) > DRIFT_MS) this.offsetMs = offsetMs
    this.latestMs = Math.max(this.latestMs, now + this.offsetMs)
    return this.offsetMs < before
  }
}
