/** Messages between a script processor and the process that runs its script, see lib/frames.ts. */

export interface ScriptData {
  readonly id: string
  readonly code?: string | undefined
  /** An absolute path. */
  readonly file?: string | undefined
  readonly per: 'event' | 'batch'
  readonly outputs: readonly string[]
  readonly timeoutMs: number
  readonly concurrency: number
}

/** A batch for the script. The bytes after this head have one JSON object per line. */
export interface JobHead {
  readonly id: number
  readonly length: number
  /** Whether the process must report each call. This is true if an earlier process ended while holding this batch. */
  readonly isNoted: boolean
  /** Events to skip because an earlier process ended during their call, and how that process ended. */
  readonly skip: readonly (readonly [event: number, reason: string])[]
}

export interface Job extends JobHead {
  readonly lines: Uint8Array
}

/** The results of the script for a batch. The columns follow. */
export interface DoneHead {
  readonly type: 'done'
  readonly id: number
  /** Indices of events that are replaced by several events. For each, `starts` and `ends` span all its new lines. */
  readonly several: readonly number[]
  /** Why events failed, by index. */
  readonly errors: readonly (readonly [number, string])[]
}

export interface JobDone extends Omit<DoneHead, 'type'> {
  /** Where each event goes (see core/processor.ts). */
  readonly to: Uint8Array
  /** The new JSON of event `i` is at [starts[i], ends[i]) of `bytes`; a line feed follows. End 0 means no change. */
  readonly starts: Int32Array
  readonly ends: Int32Array
  readonly bytes: Uint8Array
}

/** Messages are validated (from-script.ts), because a script may write anything to the descriptor for messages. */
export type FromScript =
  | { readonly type: 'ready' }
  /** The script cannot be loaded, or an uncaught error ends it. */
  | { readonly type: 'failed'; readonly error: string }
  /** A line that the script wrote to its standard output or error. */
  | { readonly type: 'wrote'; readonly line: string }
  /** The function is called for this event. */
  | { readonly type: 'at'; readonly id: number; readonly event: number }
  | DoneHead
