import type { CounterSnapshot } from '../../../engine/run/measure/counter-snapshot.js'
import type { BodyBytes, WholeBody } from '../../../net/http/events/send-body.js'
import { Refusal } from '../../../net/http/server/refusal.js'

/**
 * Messages between the service and the process of an account. The service calls, and the process replies. The process
 * reports pipeline states, counters and log lines unasked. Messages are plain data in the head of a frame
 * (lib/frames.ts). Messages from the process are JSON. The bytes of a request follow its call.
 */

/** The published revision of a pipeline, with the values of its secrets. */
export interface PublishedData {
  readonly id: string
  readonly account_id: string
  readonly revision: number
  readonly published_at: string
  readonly config: unknown
  readonly secrets?: {
    readonly version: string
    readonly names: readonly string[]
    /** The secrets' values by name, or the reason why one is missing. */
    readonly values: ReadonlyMap<string, string> | string
  }
}

/** Bytes that an account takes in the stores of the service. */
export interface BytesInStore {
  readonly keys: number
  readonly revisions: number
}

/** Facts that the process cannot find out itself. Sent with each call except `take`. */
export interface Instructions {
  readonly inStore: BytesInStore
  /** Pipelines whose folders use the disk space of the account, even while the pipelines do not run. */
  readonly pipelines: readonly string[]
  /** Ports of the service. */
  readonly ownPorts: readonly number[]
}

/** What the service must know about a running pipeline. */
export interface PipelineState {
  /** The running version; see versionName. */
  readonly version: string
  readonly revision: number
  readonly secrets: readonly string[]
  readonly keepsEventsOnDisk: boolean
  /** Whether the pipeline could not start, or was stopped. */
  readonly hasEnded: boolean
}

export interface Snapshot {
  /** Events that are not delivered, by pipeline. */
  readonly undelivered: readonly (readonly [pipeline: string, events: number])[]
  /** Bytes of the folders of all pipelines of the account. */
  readonly disk: number
  readonly budget: BudgetFigures
}

export interface BudgetFigures {
  /** Bytes of requests in progress to receivers. */
  readonly requestBytes: number
  /** Number of destinations that wait for room. */
  readonly waiting: number
}

export const NO_FIGURES: BudgetFigures = { requestBytes: 0, waiting: 0 }

export type RefusalData = Pick<Refusal, 'status' | 'code' | 'message' | 'headers' | 'close'>

export function dataOfRefusal({ status, code, message, headers, close }: Refusal): RefusalData {
  return { status, code, message, headers, close }
}

export function refusalFrom({ status, code, message, headers, close }: RefusalData): Refusal {
  return new Refusal(status, code, message, headers, close)
}

/** The calls of the service, with their arguments (`of`) and replies (`gets`). */
export interface WorkerCalls {
  start: { of: PublishedData; gets: Snapshot }
  update: { of: PublishedData; gets: Snapshot }
  /** The bytes of the body follow this message. */
  take: { of: { pipeline: string; body: Omit<WholeBody, keyof BodyBytes> }; gets: { received: number } }
  /** Replies with a snapshot that counts the undelivered events. If `now` is true, deliveries are aborted. */
  stop: { of: { pipeline: string; now: boolean }; gets: Snapshot }
  /** Makes a stopping pipeline end immediately. */
  abort: { of: { pipeline: string }; gets: undefined }
  /** The pipeline and its folder were removed. */
  forget: { of: { pipeline: string }; gets: Snapshot }
  /** If `fresh` is true, first updates the values that need the disk. */
  inspect: { of: { fresh: boolean }; gets: Snapshot }
}

export type CallName = keyof WorkerCalls

export interface ProcessCall<N extends CallName = CallName> {
  readonly id: number
  readonly name: N
  readonly of: WorkerCalls[N]['of']
  readonly instructions: Instructions | undefined
}

export type CallFailure = { readonly refusal: RefusalData } | { readonly error: string }

export type FromProcess =
  | { readonly type: 'reply'; readonly id: number; readonly value: unknown }
  | { readonly type: 'failed'; readonly id: number; readonly failure: CallFailure }
  | { readonly type: 'state'; readonly pipeline: string; readonly state: PipelineState }
  /** Counters that have changed since this process last sent them. */
  | { readonly type: 'counted'; readonly counters: readonly CounterSnapshot[] }
  | { readonly type: 'log'; readonly line: string }
