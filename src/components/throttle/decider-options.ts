import type { EventBatch } from '../../core/event/batch.js'
import type { FieldReader } from '../../core/event/field-reader.js'
import type { BucketKey } from './buckets/bucket-key.js'
import type { TimeReader } from './event/time.js'
import type { LimiterOptions } from './limiter.js'
import type { Rule } from './rules/rule.js'

/** Returns whether event `i` is excluded. `all` writes 1 (excluded) or 0 for each event of a batch. */
export interface Excludes {
  (batch: EventBatch, i: number): boolean
  readonly all: (batch: EventBatch, to: Uint8Array) => void
}

export interface DeciderOptions extends LimiterOptions {
  readonly onMaxKeys: 'default_bucket' | 'pass' | 'discard'
  readonly exclude?: Excludes | undefined
  /** The fields of the key; empty: all events belong to the default bucket. */
  readonly keyFields: readonly FieldReader[]
  /** Reads the keys of events. Default: a new BucketKey. */
  readonly key?: BucketKey | undefined
  /**
   * The field with an event's cost. If set, limits of events have the unit `cost`. If undefined, each event costs 1.
   */
  readonly costField?: FieldReader | undefined
  readonly eventTime?: EventTimeOptions | undefined
  /**
   * Judges a bucket by its sum while a source catches up, for at most this time before now, in milliseconds. With 0,
   * buckets are only saved in the same form. Undefined: backlog counts like live events. Not in event time.
   */
  readonly maxCreditMs?: number | undefined
  /** The first rule that holds for an event replaces `limits` and `costField` for this event. */
  readonly rules?: readonly Rule[] | undefined
}

export interface EventTimeOptions {
  readonly time: TimeReader
  readonly latenessMs: number
  readonly onLate: 'pass' | 'discard'
}
