/** The wall clock, for windows that follow the calendar while decisions are made in the time of another clock. */
export class WallTime {
  /** Wall clock minus the time of the decisions, in milliseconds; 0 where decisions are made in wall time. */
  offsetMs = 0
  /** The latest wall time of a decision, where the clock is followed. */
  latestMs = Number.NEGATIVE_INFINITY
}
