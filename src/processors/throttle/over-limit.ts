import { z } from 'zod'
import { duration, refuseAt } from '../../core/options/options.js'
import type { EventKey } from '../../throttle/event-key.js'
import { KeyedBuckets } from '../../throttle/keyed-buckets.js'
import { BucketColumns } from '../../throttle/windows.js'

const OVER_LIMIT = 'must be discard, mark, {pass_one_in: N} with a whole number N, or {wait: DURATION}'

/** Options about what happens to events over the limit. */
export const overLimitOptions = {
  mode: z
    .enum(['enforce', 'shadow'])
    .default('enforce')
    .describe(
      'shadow: decides, counts and summarizes as if it discarded, but passes every event unchanged. Its metrics have the label `mode="shadow"`, and the decision `would_discard` instead of `discarded`.',
    ),
  over_limit: z
    .union(
      [
        z.enum(['discard', 'mark']),
        z.strictObject({
          pass_one_in: z
            .int()
            .min(2)
            .max(1_000_000_000)
            .describe('Of the events of each bucket that are over the limit, every one of this number passes.'),
        }),
        z.strictObject({
          wait: duration().describe('How long an event over the limit may wait for room. Then it is discarded.'),
        }),
      ],
      { error: OVER_LIMIT },
    )
    .default('discard')
    .describe(
      'What happens to an event over the limit. discard: it is discarded. mark: it passes with the field `.throttle` (see annotate). pass_one_in: every N-th of its bucket passes, the others are discarded. wait: it waits for room, at most so long, and is discarded then; its source is read more slowly.',
    ),
}

type OverLimit = z.output<typeof overLimitOptions.over_limit>

/** Refuses to wait for room in windows that do not move on with the clock. */
export function checkOverLimit(
  { over_limit, time_field }: { over_limit?: OverLimit; time_field?: unknown },
  context: z.RefinementCtx,
): void {
  if (time_field && typeof over_limit === 'object' && 'wait' in over_limit)
    refuseAt(context, ['over_limit'], 'cannot wait with time_field: in the time of the events, waiting makes no room')
}

/** How long the count of a bucket is kept in which nothing is over the limit. */
const KEPT_MS = 3_600_000

/** The events over the limit since the last one that passed, by bucket. */
class OverLimitCounts extends BucketColumns {
  /** Counts an event; returns whether it is the one of `oneIn` that passes. */
  next(bucket: number, oneIn: number, now: number): boolean {
    const isEmpty = this.times[bucket] === Number.NEGATIVE_INFINITY
    const count = isEmpty ? 1 : this.counts[bucket]! + 1
    this.times[bucket] = now
    this.counts[bucket] = count === oneIn ? 0 : count
    return count === oneIn
  }
}

/** Lets one in N pass of the events of each bucket that are over the limit. */
export class OneInN {
  readonly #oneIn: number
  readonly #buckets: KeyedBuckets<OverLimitCounts>
  /** Counts of the default bucket, and of all for which there is no room. */
  readonly #others = new OverLimitCounts()

  constructor(oneIn: number, maxKeys: number, seed: number) {
    this.#oneIn = oneIn
    const options = { idleMs: KEPT_MS, maxKeys, seed, keepsUsed: false }
    this.#buckets = new KeyedBuckets(options, () => new OverLimitCounts())
  }

  /** Call before the events of one point in time. */
  advance(now: number): void {
    this.#buckets.advance(now)
  }

  /** Counts an event over the limit; returns whether it passes. */
  passes({ isThere, bytes, start, end }: EventKey, now: number): boolean {
    const id = isThere ? this.#buckets.bucket(bytes, start, end, now) : -1
    return id < 0 ? this.#others.next(0, this.#oneIn, now) : this.#buckets.windows.next(id, this.#oneIn, now)
  }
}
