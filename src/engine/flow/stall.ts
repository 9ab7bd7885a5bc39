/**
 * A source that had no room for this many milliseconds has fallen behind. The events that it could have read during
 * that time become backlog (EventBatch.isBacklog).
 */
export const STALL_MS = 1000
