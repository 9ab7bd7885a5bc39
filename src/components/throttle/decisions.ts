export type Decision = number

/** The event is within its limits and is counted. */
export const PASS = 0
/** The event is beyond a limit. */
export const DISCARD = 1
/** Not counted, because the key is new, there are already `maxKeys` buckets, and no idle bucket was found. */
export const FULL = 2
/** Not counted, because `exclude` matches. */
export const EXCLUDED = 3
/** Passed without being counted, because no room is left for the bucket, or the Redis server could not be asked. */
export const FAIL_OPEN = 4
/**
 * In event time, the window of the event is no longer in memory. LATE: the event passes uncounted. TOO_LATE: the event
 * is discarded.
 */
export const LATE = 5
export const TOO_LATE = 6
/** The event is beyond a limit and waits. When there is room, the event is decided again. */
export const WAITS = 7
/** Not decided yet, because the Redis server has to be asked. */
export const ASK = 8
/** Discarded, because the Redis server could not be asked, and `on_backend_failure` is `discard`. */
export const NO_BACKEND = 9
export const DECISIONS = 10

/** False for excluded and for waiting events. */
export const isCounted = (decision: Decision): boolean => decision !== EXCLUDED && decision !== WAITS

/** Whether the event is discarded, for any reason. */
export const isLost = (decision: Decision): boolean =>
  decision === DISCARD || decision === FULL || decision === TOO_LATE || decision === NO_BACKEND

export type WindowDecision = typeof PASS | typeof DISCARD | typeof LATE
