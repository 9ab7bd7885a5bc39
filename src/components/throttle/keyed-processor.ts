import type { Processor } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { FieldReader } from '../../core/event/field-reader.js'
import type { BucketWait, ProcessorOutage, WaitState } from '../../core/status-document.js'
import type { Level } from './limit.js'
import type { WallTime } from './windows/wall-time.js'

/** A processor that decides by key. */
export interface KeyedProcessor extends Processor {
  /** Starts counting decisions by key. */
  watchKeys(): KeyWatch
  /**
   * Calls `see` with each batch and its decisions until the caller calls the returned function. If the same `see` is
   * registered several times, it is still called only once per batch.
   */
  watchDecisions(see: SeeDecisions): () => void
  /** Number of events about which the processor has decided. */
  readonly decided: number
  /** Returns the bucket of event `i`. The processor has already decided about this event. */
  bucketOf(batch: EventBatch, i: number): EventBucket
  /**
   * Returns the state of the bucket `key`; null: the default bucket. `rule`: the bucket's rule, as in BucketState. If
   * `rule` is null, the bucket has no rule. If undefined, uses the rule that applied to the bucket's events, if known.
   */
  bucket(key: string | null, rule?: string | null): BucketState
  /**
   * Returns how full the bucket with these key bytes is at the time `at` of the last decisions; undefined: the default
   * bucket. Returns undefined if the bucket's own windows do not decide.
   */
  level(key: Uint8Array | undefined, at: number): Level | undefined
  /** Returns why `events` wait. The processor decided LATER for them. */
  waitsFor(events: Iterable<EventBatch>): WaitState
}

export function keyedOf(processor: Processor | undefined): KeyedProcessor | undefined {
  return processor && 'watchKeys' in processor ? (processor as KeyedProcessor) : undefined
}

/**
 * Receives a batch and, for each event, the number of its decision, before the events leave the processor. The function
 * must not keep the batch or the decisions. `key`: the fields of the key; if empty, all events share one bucket.
 * `buckets`: the bucket of each event, if known. `decider`: undefined if daemons share the limit.
 */
export type SeeDecisions = (
  batch: EventBatch,
  decisions: Uint8Array,
  key: readonly FieldReader[],
  buckets?: KnownBuckets,
  decider?: ClockDecisions,
) => void

export interface ClockDecisions {
  /** The time of the last decisions. Undefined if not only windows on the clock decided. */
  readonly decidedByClockAt: number | undefined
  readonly wall: WallTime | undefined
}

/** `ids`: the bucket number of each event; negative: unknown. If `owner` changes, a number may mean another bucket. */
export interface KnownBuckets {
  readonly ids: Int32Array
  readonly owner: number
}

export interface EventBucket {
  /** The name of the bucket; null: the default bucket. */
  readonly bucket: string | null
  /** The rule of the bucket, as written in the configuration; missing if there is no rule. */
  readonly rule?: string
}

export interface BucketState {
  /** The rule of the bucket, as written in the configuration. */
  readonly rule?: string
  /** The limit closest to being reached, in `unit` per window. Missing if the limit is shared or unknown. */
  readonly limit?: number
  readonly unit?: 'events' | 'bytes' | 'cost'
  readonly window_ms?: number
  readonly window_mode?: string
  /** The amount that has passed in the window. */
  readonly used?: number
  /** Start of the open window, ISO 8601; missing if no window is open. */
  readonly since?: string
  readonly until?: string
  /** Set while the server that keeps the counts does not reply. `used` is then from the server's last answer. */
  readonly outage?: ProcessorOutage
  readonly discarded_last_hour: number
  /** Start of `discarded_last_hour`, ISO 8601: an hour ago, or when the throttle got its options, if this is later. */
  readonly discarded_since: string
  /** False: `used` is an estimate. */
  readonly is_exact: boolean
}

export interface LiveBucket extends BucketState {
  readonly key: string | null
  /**
   * The bucket's waiting events, and why they wait. Missing if no events wait, or if many other buckets have more
   * waiting events.
   */
  readonly waiting?: BucketWait & Pick<WaitState, 'options'>
  /** The components that read discarded events; null: the throttle is in shadow mode and discards no events. */
  readonly discarded_to: readonly string[] | null
}

export interface KeyCount {
  /** Null for events without a key. A long key is shortened and ends with a digest of the whole key. */
  readonly key: string | null
  readonly passed: number
  readonly discarded: number
  /** Missing if the key is shortened. */
  readonly bucket?: BucketState | undefined
}

export interface KeyCounts {
  /** False: the counts are scaled up from a sample. */
  readonly exact: boolean
  /** The keys, those with most events first. */
  readonly keys: readonly KeyCount[]
  /** As in LiveBucket. */
  readonly discarded_to?: readonly string[] | null
}

export interface KeyWatch {
  /** Stops counting. Returns the busiest keys, at most `most`. */
  end(most: number): KeyCounts
}
