/**
 * A source that had no room for this long, in milliseconds, has fallen behind. What has piled up by then is backlog
 * (EventBatch.isBacklog) for a source that could have read it before.
 */
export const STALL_MS = 1000
