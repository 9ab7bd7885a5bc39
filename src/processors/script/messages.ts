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
  /** The length of each event's new JSON in `bytes`, where a line feed is behind each; 0: it stays as it is. */
  readonly sizes: Int32Array
  readonly bytes: Uint8Array
  /** The JSON of the events that take the place of one, by its index. */
  readonly several: readonly (readonly [number, readonly string[]])[]
  /** Why events failed, by index. */
  readonly errors: readonly (readonly [number, string])[]
}

export type FromScript =
  | { readonly type: 'ready' }
  | { readonly type: 'failed'; readonly error: string }
  /** What the script wrote to its standard output or error. */
  | { readonly type: 'wrote'; readonly line: string }
  | JobDone
