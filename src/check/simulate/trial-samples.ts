import type { EventBatch } from '../../core/event/batch.js'
import type { DeciderOptions } from '../../throttle/decider.js'
import { EventKey } from '../../throttle/event-key.js'
import { KeyedBuckets } from '../../throttle/keyed-buckets.js'
import { BucketColumns } from '../../throttle/windows.js'

/** How long the daemon keeps the count of a bucket in which nothing is over the limit. */
const KEPT_MS = 3_600_000

/** The events over the limit since the last one that passed, by bucket and trial. */
class OverLimit extends BucketColumns {
  readonly #trials: number
  #overs: Uint32Array

  constructor(trials: number) {
    super()
    this.#trials = trials
    this.#overs = new Uint32Array(this.counts.length * trials)
  }

  see(bucket: number, now: number): void {
    this.times[bucket] = now
  }

  /** Counts an event; returns whether it is the one of `oneIn` that passes. */
  next(bucket: number, trial: number, oneIn: number): boolean {
    const at = bucket * this.#trials + trial
    const count = this.#overs[at]! + 1
    this.#overs[at] = count === oneIn ? 0 : count
    return count === oneIn
  }

  override reserve(capacity: number): void {
    super.reserve(capacity)
    if (capacity * this.#trials <= this.#overs.length) return
    const overs = new Uint32Array(capacity * this.#trials)
    overs.set(this.#overs)
    this.#overs = overs
  }

  override adopt(bucket: number, from: OverLimit, fromBucket: number): void {
    super.adopt(bucket, from, fromBucket)
    const start = fromBucket * this.#trials
    this.#overs.set(from.#overs.subarray(start, start + this.#trials), bucket * this.#trials)
  }
}

/** Lets one in N pass of the events of each bucket that are over the limit of a trial, as `pass_one_in` does. */
export class TrialSamples {
  readonly #oneIn: number
  readonly #key: EventKey
  readonly #buckets: KeyedBuckets<OverLimit>
  /** Counts of the default bucket, and of all for which there is no room. */
  readonly #others: OverLimit

  constructor(oneIn: number, trials: number, { keyFields, maxKeys, seed }: DeciderOptions) {
    const create = () => new OverLimit(trials)
    this.#oneIn = oneIn
    this.#key = new EventKey(keyFields, seed)
    this.#buckets = new KeyedBuckets({ idleMs: KEPT_MS, maxKeys, keepsUsed: false }, create)
    this.#others = create()
  }

  /** Lets trials pass an event that they discard: `outcome` is 1 for each of them. */
  apply(batch: EventBatch, i: number, now: number, outcome: Uint8Array): void {
    if (!outcome.includes(1)) return
    const key = this.#key
    key.load(batch, i)
    this.#buckets.advance(now)
    const id = key.isThere ? this.#buckets.bucket(key, now) : -1
    const counts = id < 0 ? this.#others : this.#buckets.windows
    const bucket = Math.max(id, 0)
    counts.see(bucket, now)
    for (let k = 0; k < outcome.length; k++) {
      if (outcome[k] === 1 && counts.next(bucket, k, this.#oneIn)) outcome[k] = 0
    }
  }
}
