export type Decision = number

/** The event is within its limits and is counted. */
export const PASS = 0
/** The event is beyond a limit. */
export const DISCARD = 1
/** Not counted: the key is new, there are `maxKeys` buckets, and no idle one was found. */
export const FULL = 2
/** Not counted, because `exclude` matches. */
export const EXCLUDED = 3
/** Passed without being counted: there is no room for the bucket, or the Redis server could not be asked. */
export const FAIL_OPEN = 4
/**
 * In event time: the event's window is no longer in memory. LATE: the event passes uncounted. TOO_LATE: it is
 * discarded.
 */
export const LATE = 5
export const TOO_LATE = 6
/** The event is beyond a limit and waits. It is decided again when there is room. */
export const WAITS = 7
/** Not decided yet: the Redis server has to be asked. */
export const ASK = 8
/** Discarded: the Redis server could not be asked, and `on_backend_failure` is `discard`. */
export const NO_BACKEND = 9
export const DECISIONS = 10

/** False for excluded and for waiting events. */
export const isCounted = (decision: Decision): boolean => decision !== EXCLUDED && decision !== WAITS

/** Whether the event is discarded, for any reason. */
export const isLost = (decision: Decision): boolean =>
  decision === DISCARD || decision === FULL || decision === TOO_LATE || decision === NO_BACKEND

export type WindowDecision = typeof PASS | typeof DISCARD | typeof LATE
