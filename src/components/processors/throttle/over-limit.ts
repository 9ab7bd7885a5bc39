import type { EventKey } from '../../throttle/buckets/event-key.js'
import { KeyedBuckets } from '../../throttle/buckets/keyed-buckets.js'
import { BucketColumns } from '../../throttle/windows.js'

/** How long the count of a bucket is kept while the bucket has no events over the limit. */
const KEPT_MS = 3_600_000

/** By bucket: the number of events over the limit since one of them last passed. */
class OverLimitCounts extends BucketColumns {
  /** Counts an event over the limit. Returns whether this event passes. One in `oneIn` passes. */
  next(bucket: number, oneIn: number, now: number): boolean {
    const isEmpty = this.times[bucket] === Number.NEGATIVE_INFINITY
    const count = isEmpty ? 1 : this.counts[bucket]! + 1
    this.times[bucket] = now
    this.counts[bucket] = count === oneIn ? 0 : count
    return count === oneIn
  }
}

/** Per bucket, lets one in N events over the limit pass. */
export class OneInN {
  readonly seed: number
  readonly #oneIn: number
  readonly #buckets: KeyedBuckets<OverLimitCounts>
  /** A common count for the default bucket and for all buckets beyond the maximum number. */
  readonly #others = new OverLimitCounts()

  constructor(oneIn: number, maxKeys: number, seed: number) {
    this.#oneIn = oneIn
    this.seed = seed
    const options = { idleMs: KEPT_MS, maxKeys, keepsUsed: false }
    this.#buckets = new KeyedBuckets(options, () => new OverLimitCounts())
  }

  advance(now: number): void {
    this.#buckets.advance(now)
  }

  /** Counts an event over the limit. Returns whether the event passes. */
  passes(key: EventKey, now: number): boolean {
    const id = key.isThere ? this.#buckets.bucket(key, now) : -1
    return id < 0 ? this.#others.next(0, this.#oneIn, now) : this.#buckets.windows.next(id, this.#oneIn, now)
  }
}
