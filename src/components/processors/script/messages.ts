/** What the process of a script and its processor say to each other, see lib/frames.ts. */

/** What a process is started with. */
export interface ScriptData {
  /** The component. */
  readonly id: string
  readonly code?: string | undefined
  /** Absolute. */
  readonly file?: string | undefined
  readonly per: 'event' | 'batch'
  readonly outputs: readonly string[]
  readonly timeoutMs: number
  readonly concurrency: number
}

/** A batch for the script. The bytes behind it have one JSON object a line. */
export interface JobHead {
  readonly id: number
  readonly length: number
  /** Whether the process says which event it begins with: a process has ended with the batch before. */
  readonly isNoted: boolean
  /** Events that are not given to the script, because a process ended in their call, and how. */
  readonly skip: readonly (readonly [event: number, reason: string])[]
}

export interface Job extends JobHead {
  readonly lines: Uint8Array
}

/** What the script made of a batch. The columns are behind it. */
export interface DoneHead {
  readonly type: 'done'
  readonly id: number
  /** Events in whose place others come: there, it has the lines of these. */
  readonly several: readonly number[]
  /** Why events failed, by index. */
  readonly errors: readonly (readonly [number, string])[]
}

export interface JobDone extends Omit<DoneHead, 'type'> {
  /** The column of the batch (core/processor.ts). */
  readonly to: Uint8Array
  /** The new JSON of event `i` is at [starts[i], ends[i]) of `bytes`, with a line feed behind it. No end: it stays as it is. */
  readonly starts: Int32Array
  readonly ends: Int32Array
  readonly bytes: Uint8Array
}

/** Each is checked as input, see from-script.ts: a script may write whatever it wants to these descriptors. */
export type FromScript =
  | { readonly type: 'ready' }
  /** It cannot be loaded, or an error that nothing caught ends it. */
  | { readonly type: 'failed'; readonly error: string }
  /** What the script wrote to its standard output or error. */
  | { readonly type: 'wrote'; readonly line: string }
  /** The function is called for this event. */
  | { readonly type: 'at'; readonly id: number; readonly event: number }
  | DoneHead
