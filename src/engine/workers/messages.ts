import type { Kind } from '../../core/component.js'
import type { AckStatus } from '../../core/event/ack.js'
import type { OnError } from '../../core/processor.js'
import type { CounterSnapshot } from '../measure/counter-snapshot.js'
import type { FileIdentity, Graph } from '../own-outputs.js'
import type { SourceFailure } from '../source-run.js'

/**
 * What the main thread and a worker thread say to each other. All of it is plain data, in order in each direction. The
 * memory of batches is transferred with the messages, so only one thread at a time has it.
 */

/** A component as it is written in the configuration. The worker thread parses its options again. */
export interface ComponentData {
  readonly id: string
  readonly kind: Kind
  readonly type: string
  readonly inputs: readonly string[]
  readonly given: unknown
  readonly onError: OnError | undefined
}

/** What a worker thread is to run. */
export interface PartData {
  readonly sources: readonly ComponentData[]
  readonly processors: readonly ComponentData[]
  readonly exits: readonly string[]
  /** Ids and inputs of all components, to know which of them events of a source reach. */
  readonly graph: Graph
  /** The saved positions of the sources; undefined: none, null: damaged. */
  readonly positions: ReadonlyMap<string, unknown>
  /** Whether all lines of the whole configuration are only copied. */
  readonly isOnlyCopied: boolean
  readonly dataDir: string
  readonly shutdownTimeoutMs: number
  /** Bytes that each source may have unacknowledged. */
  readonly share: number
}

/** What a part looks like at a moment. */
export interface Look {
  readonly counters: readonly CounterSnapshot[]
  /** Events that left a component of the part and have not reached the next one. */
  readonly between: number
  /** Events that left the part since it began to run. */
  readonly left: number
  readonly failures: readonly SourceFailure[]
  /** Whether components have seen events that they, or their successors, will receive again. */
  readonly repeats: boolean
  /** Ids of processors with work and no good reason to wait. */
  readonly owes: readonly string[]
}

/** A batch as a record (flow/disk-buffer/batch-record.ts) of `size` bytes. */
export interface BatchMessage {
  readonly type: 'batch'
  readonly exit: string
  readonly number: number
  readonly record: ArrayBuffer
  readonly size: number
}

export type ToWorker =
  | { readonly type: 'build'; readonly part: PartData }
  /** The part that was built last is not run. */
  | { readonly type: 'undo' }
  | { readonly type: 'run' }
  /** Ends for a replacement. `same`: sources that go on. `gone`: components that will be elsewhere, or nowhere. */
  | { readonly type: 'leave'; readonly same: ReadonlySet<string>; readonly gone: readonly string[] }
  | { readonly type: 'stop' }
  | { readonly type: 'abort' }
  | {
      readonly type: 'accepted'
      /** Outputs, each as often as there is room for one more batch. */
      readonly taken: readonly string[]
      readonly settled: readonly (readonly [exit: string, number: number, status: AckStatus])[]
      /** Batches that need so many bytes less than their records took. */
      readonly shrunk: readonly (readonly [exit: string, number: number, bytes: number])[]
      /** Memory to be used again. */
      readonly rooms: readonly ArrayBuffer[]
    }
  /** `savedAt`: of the positions of each source, wall clock; Infinity: all are saved. */
  | { readonly type: 'look'; readonly savedAt: ReadonlyMap<string, number> }
  | { readonly type: 'flushed'; readonly id: number; readonly error: string | undefined }
  | { readonly type: 'tap'; readonly output: string; readonly on: boolean }
  | { readonly type: 'tapped'; readonly output: string }
  | { readonly type: 'writes'; readonly id: number; readonly destination: string; readonly file: FileIdentity }
  | { readonly type: 'wrote'; readonly id: number }

export type FromWorker =
  | BatchMessage
  | { readonly type: 'built' }
  | { readonly type: 'failed'; readonly error: string }
  /** An output has ended. */
  | { readonly type: 'over'; readonly exit: string }
  /** The part has ended. */
  | { readonly type: 'ended'; readonly look: Look; readonly error: string | undefined }
  | { readonly type: 'look'; readonly look: Look }
  | { readonly type: 'positions'; readonly source: string; readonly document: unknown }
  | { readonly type: 'flush'; readonly source: string; readonly id: number }
  | { readonly type: 'log'; readonly level: LogLevel; readonly fields: object; readonly text: string | undefined }
  | { readonly type: 'tapped'; readonly output: string; readonly record: ArrayBuffer }

export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

/** What a worker thread is started with. */
export interface ThreadData {
  readonly logLevel: string
}
