import type { LATE } from './event-windows.js'
import type { Taken } from './limiter.js'

/** The result for an event: PASS, DISCARD or FULL, LATE (event-windows.ts), or one of these. */
export const EXCLUDED = 3
/** A new key beyond `maxKeys` that passes nevertheless. */
export const FAIL_OPEN = 4
/** A late event that is discarded; a LATE one passes. */
export const TOO_LATE = 6
/** Beyond the limit, and to be decided again when there is room. */
export const WAITS = 7
/** The server of a cluster limit could not be asked, with `on_backend_failure: discard`. */
export const NO_BACKEND = 9
export type Decision = Taken | typeof EXCLUDED | typeof FAIL_OPEN | typeof LATE | typeof TOO_LATE
