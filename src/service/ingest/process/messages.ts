import type { CounterSnapshot } from '../../../engine/run/measure/counter-snapshot.js'
import type { Body, BodyBytes } from '../../../net/http/events/send-body.js'
import { Refusal } from '../../../net/http/server/refusal.js'

/**
 * What the service and the process of an account say to each other. The service calls, the process replies, and tells by
 * itself what became of a pipeline, what was counted and what is to be logged. All of it is plain data: it is copied
 * between processes, as the head of a frame (lib/frames.ts), in JSON from the process. The bytes of a request are behind
 * its call.
 */

/** What is published of a pipeline, with the values of its secrets. */
export interface PublishedData {
  readonly id: string
  readonly account_id: string
  readonly revision: number
  readonly config: unknown
  readonly secrets?: {
    readonly version: string
    readonly names: readonly string[]
    /** By name; or why there are none. */
    readonly values: ReadonlyMap<string, string> | string
  }
}

/** Bytes that an account takes in the stores of the service. */
export interface BytesInStore {
  readonly keys: number
  readonly revisions: number
}

/** What the process cannot know by itself. Comes with each call but `take`. */
export interface Instructions {
  readonly inStore: BytesInStore
  /** Whose folders count, also while they do not run. */
  readonly pipelines: readonly string[]
  /** Where the service listens. */
  readonly ownPorts: readonly number[]
}

/** A pipeline that runs, as the service has to know it. */
export interface PipelineState {
  /** What runs, see versionName. */
  readonly version: string
  readonly revision: number
  readonly secrets: readonly string[]
  readonly hasDiskBuffers: boolean
  /** It could not start, or was stopped. */
  readonly hasEnded: boolean
}

/** What the process looks like at a moment. */
export interface Snapshot {
  /** Events that are not delivered, by pipeline. */
  readonly undelivered: readonly (readonly [pipeline: string, events: number])[]
  /** Bytes of all folders of the account. */
  readonly disk: number
  readonly budget: BudgetFigures
}

export interface BudgetFigures {
  /** Of requests to receivers. */
  readonly requestBytes: number
  /** Destinations that wait for room. */
  readonly waiting: number
}

export const NO_FIGURES: BudgetFigures = { requestBytes: 0, waiting: 0 }

/** A refusal on its way from one process to the other. */
export type RefusalData = Pick<Refusal, 'status' | 'code' | 'message' | 'headers' | 'close'>

export function dataOfRefusal({ status, code, message, headers, close }: Refusal): RefusalData {
  return { status, code, message, headers, close }
}

export function refusalOf({ status, code, message, headers, close }: RefusalData): Refusal {
  return new Refusal(status, code, message, headers, close)
}

/** What the service asks for, and what it gets. */
export interface WorkerCalls {
  start: { of: PublishedData; gets: Snapshot }
  update: { of: PublishedData; gets: Snapshot }
  /** The bytes come beside it. */
  take: { of: { pipeline: string; body: Omit<Body, keyof BodyBytes> }; gets: { received: number } }
  /** Gets how many events were not delivered before. `now`: nothing is waited for. */
  stop: { of: { pipeline: string; now: boolean }; gets: Snapshot }
  /** A pipeline that stops has to hurry. */
  abort: { of: { pipeline: string }; gets: undefined }
  /** A pipeline is gone for good, and its folder is. */
  forget: { of: { pipeline: string }; gets: Snapshot }
  /** `fresh`: with what has to be looked up on the disk. */
  inspect: { of: { fresh: boolean }; gets: Snapshot }
}

export type CallName = keyof WorkerCalls

export interface Call<N extends CallName = CallName> {
  readonly id: number
  readonly name: N
  readonly of: WorkerCalls[N]['of']
  readonly instructions: Instructions | undefined
}

/** Why a call failed. */
export type Failure = { readonly refusal: RefusalData } | { readonly error: string }

export type FromProcess =
  | { readonly type: 'reply'; readonly id: number; readonly value: unknown }
  | { readonly type: 'failed'; readonly id: number; readonly failure: Failure }
  | { readonly type: 'state'; readonly pipeline: string; readonly state: PipelineState }
  /** Components that have counted something since they were told last. */
  | { readonly type: 'counted'; readonly counters: readonly CounterSnapshot[] }
  | { readonly type: 'log'; readonly line: string }
