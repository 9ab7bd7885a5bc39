export type Decision = number

/** Within its limits, and counted. */
export const PASS = 0
/** Beyond a limit. */
export const DISCARD = 1
/** A new key while there are `maxKeys` buckets and no idle one was found; not counted. */
export const FULL = 2
/** Not counted, because `exclude` matches. */
export const EXCLUDED = 3
/** Not counted and passed: a new key beyond `maxKeys`, or the server of a cluster limit is unreachable. */
export const FAIL_OPEN = 4
/**
 * In event time: the window of the event is no longer in memory. LATE: it passes uncounted; TOO_LATE: it is discarded.
 */
export const LATE = 5
export const TOO_LATE = 6
/** Beyond the limit, and to be decided again when there is room. */
export const WAITS = 7
/** The server of a cluster limit has to be asked. */
export const ASK = 8
/** The server of a cluster limit could not be asked, with `on_backend_failure: discard`. */
export const NO_BACKEND = 9
export const DECISIONS = 10

/** Whether the decision is final, and its event counts. */
export const isCounted = (decision: Decision): boolean => decision !== EXCLUDED && decision !== WAITS

/** Whether the event does not pass. */
export const isLost = (decision: Decision): boolean =>
  decision === DISCARD || decision === FULL || decision === TOO_LATE || decision === NO_BACKEND

export type WindowDecision = typeof PASS | typeof DISCARD | typeof LATE
