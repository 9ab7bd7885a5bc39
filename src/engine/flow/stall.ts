/**
 * A source that had no room for this many milliseconds has fallen behind. Events that it could have read before are
 * then backlog (EventBatch.isBacklog).
 */
export const STALL_MS = 1000
