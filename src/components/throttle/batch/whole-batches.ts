import type { EventBatch } from '../../../core/event/batch.js'
import type { FieldReader } from '../../../core/event/field-reader.js'
import { NONE } from '../buckets/key-table.js'
import type { DeciderOptions } from '../decider-options.js'
import { type Decision, DISCARD, EXCLUDED, PASS } from '../decisions.js'
import type { Limiter } from '../limiter.js'
import type { RuleLimits } from '../rules/rules.js'
import type { Windows } from '../windows.js'
import { BatchKeys, type BucketIds } from './batch-keys.js'
import { RuledBuckets } from './ruled-buckets.js'

const PAUSE = 16
/**
 * Maximum share of events that may be decided one by one. If the share would be larger, all events of the batch are
 * decided one by one. The maximum is smaller with rules, because with rules such events are looked up twice.
 */
const MOST_ALONE = 3 / 4
const MOST_ALONE_WITH_RULES = 1 / 4

interface WholeBuckets extends BucketIds {
  /** The windows to which the ids from the last `findAll` refer. */
  readonly windows: Pick<Windows, 'takeAll'>
}

type Take = (batch: EventBatch, i: number, now: number) => Decision

/**
 * If each event costs 1, decides on all events of a batch in a few loops over columns. The decisions are the same as if
 * the events were decided one by one, because buckets do not affect each other while no bucket is added or dropped.
 * Some events are still decided one by one, in order: events that may add or drop a bucket, events whose key is not a
 * plain string or integer, and events whose rule depends on more than the key.
 */
export class WholeBatches {
  readonly #limiter: Limiter
  readonly #exclude: DeciderOptions['exclude']
  /** Undefined: all events belong to the default bucket. */
  readonly keys: BatchKeys | undefined
  readonly #take: Take
  /** Undefined: there are no rules. */
  #ruled: RuledBuckets | undefined
  #excluded = new Uint8Array(1024)
  /** Only for throttles without a key. For each event: 0 (the default bucket), or NONE if the event is excluded. */
  #ids = new Int32Array(1024)
  /** How many of the next batches to skip, because too few events of an earlier batch could be decided here. */
  #pause = 0

  constructor(limiter: Limiter, exclude: DeciderOptions['exclude'], field: FieldReader | undefined, take: Take) {
    this.#limiter = limiter
    this.#exclude = exclude
    this.keys = field && new BatchKeys(field, limiter.seed)
    this.#take = take
  }

  /**
   * Decides on all events and counts the decisions. If this is not possible, returns false and has no effect.
   * `ruleLimits` is undefined if the throttle has no rules.
   */
  decide(
    batch: EventBatch,
    now: number,
    ruleLimits: RuleLimits | undefined,
    decisions: Uint8Array,
    counts: Uint32Array,
  ): boolean {
    const { keys } = this
    if (keys === undefined) {
      if (ruleLimits === undefined) this.#decideByDefault(batch, now, decisions, counts)
      return ruleLimits === undefined
    }
    const buckets = ruleLimits === undefined ? this.#limiter.undivided : this.#bucketsOf(ruleLimits)
    if (buckets === undefined || this.#pause-- > 0) return false
    const excluded = this.#exclude && this.#excludedOf(batch, this.#exclude)
    const { length } = batch
    this.#pause = 0
    if (!keys.find(batch, buckets, excluded)) return false
    if (keys.aloneCount > length * (ruleLimits === undefined ? MOST_ALONE : MOST_ALONE_WITH_RULES)) {
      this.#pause = PAUSE
      return false
    }
    if (excluded !== undefined) noteExcluded(length, excluded, decisions, counts)
    this.#decideByKeys(batch, keys, buckets, now, decisions, counts)
    return true
  }

  #bucketsOf(ruleLimits: RuleLimits): RuledBuckets | undefined {
    if (this.#ruled?.ruleLimits !== ruleLimits) this.#ruled = new RuledBuckets(ruleLimits, this.#limiter)
    return this.#limiter.keys > 0 && !this.#ruled.isTooDivided ? this.#ruled : undefined
  }

  #excludedOf(batch: EventBatch, exclude: NonNullable<DeciderOptions['exclude']>): Uint8Array {
    if (this.#excluded.length < batch.length) this.#excluded = new Uint8Array(batch.length * 2)
    exclude.all(batch, this.#excluded)
    return this.#excluded
  }

  #decideByDefault(batch: EventBatch, now: number, decisions: Uint8Array, counts: Uint32Array): void {
    const { length } = batch
    if (this.#ids.length < length) this.#ids = new Int32Array(length * 2)
    const ids = this.#ids.fill(0, 0, length)
    const excluded = this.#exclude && this.#excludedOf(batch, this.#exclude)
    if (excluded !== undefined) {
      noteExcluded(length, excluded, decisions, counts)
      for (let i = 0; i < length; i++) if (excluded[i] === 1) ids[i] = NONE
    }
    const discarded = this.#limiter.defaults.takeAll(ids, 0, length, now, decisions)
    counts[DISCARD] = discarded
    counts[PASS] = length - counts[EXCLUDED]! - discarded
  }

  #decideByKeys(
    batch: EventBatch,
    keys: BatchKeys,
    buckets: WholeBuckets,
    now: number,
    decisions: Uint8Array,
    counts: Uint32Array,
  ): void {
    const { length } = batch
    const { layout } = buckets
    let discarded = 0
    let from = 0
    let alone = 0
    const decideAlone = (i: number) => {
      const decision = this.#take(batch, i, now)
      decisions[i] = decision
      counts[decision]!++
      alone++
    }
    for (let n = 0; n < keys.aloneCount && buckets.layout === layout; n++) {
      const i = keys.alone[n]!
      if (from < i) discarded += buckets.windows.takeAll(keys.ids, from, i, now, decisions)
      decideAlone(i)
      from = i + 1
    }
    // If the layout has changed, the ids in `keys` may belong to other buckets now.
    if (buckets.layout === layout) discarded += buckets.windows.takeAll(keys.ids, from, length, now, decisions)
    else for (; from < length; from++) if (keys.ids[from] !== NONE) decideAlone(from)
    counts[DISCARD]! += discarded
    counts[PASS]! += length - counts[EXCLUDED]! - alone - discarded
  }
}

function noteExcluded(length: number, excluded: Uint8Array, decisions: Uint8Array, counts: Uint32Array): void {
  decisions.fill(EXCLUDED, 0, length)
  let count = 0
  for (let i = 0; i < length; i++) count += excluded[i]!
  counts[EXCLUDED] = count
}
