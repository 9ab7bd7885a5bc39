/**
 * A source without room for this long, in milliseconds, has fallen behind. Events that have accumulated by then are
 * backlog (EventBatch.isBacklog) if the source could have read them before.
 */
export const STALL_MS = 1000
