/** What the thread of a script and its processor say to each other. */

/** What a thread is started with. */
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
  /** The batch, and the event in it, of the last call: two numbers. */
  readonly current: Int32Array
}

/** A batch for the script. */
export interface Job {
  readonly id: number
  readonly length: number
  /** One JSON object a line. */
  readonly lines: Uint8Array
  /** An event that is not given to the script, because its call ended the thread, and how. */
  readonly skip: { readonly event: number; readonly reason: string } | undefined
}

/** What the script made of a batch. */
export interface JobDone {
  readonly type: 'done'
  readonly id: number
  /** The column of the batch (core/processor.ts). */
  readonly to: Uint8Array
  /** The new JSON of event `i` is at [starts[i], ends[i]) of `bytes`, with a line feed behind it. No end: it stays as it is. */
  readonly starts: Int32Array
  readonly ends: Int32Array
  readonly bytes: Uint8Array
  /** Events in whose place others come: there, it has the lines of these. */
  readonly several: readonly number[]
  /** Why events failed, by index. */
  readonly errors: readonly (readonly [number, string])[]
}

export type FromScript =
  | { readonly type: 'ready' }
  | { readonly type: 'failed'; readonly error: string }
  /** What the script wrote to its standard output or error. */
  | { readonly type: 'wrote'; readonly line: string }
  | JobDone
