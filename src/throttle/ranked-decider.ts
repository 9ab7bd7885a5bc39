import type { EventBatch } from '../core/event/batch.js'
import { Decider, type DeciderOptions } from './decider.js'
import { EXCLUDED, FAIL_OPEN } from './decisions.js'
import { KeyedLimiter } from './keyed-limiter.js'
import type { Limit } from './limit.js'
import { FULL } from './limiter.js'
import { PeriodWindows } from './period-windows.js'
import { AlignedPeriods } from './periods.js'
import { WallTime } from './wall-time.js'
import { FixedWindows, type LimitWindows } from './windows.js'

/** An excluded event. */
export const EXEMPT = -1
/** An event of a new key beyond `maxKeys` that passes every limit. */
export const UNCOUNTED = 0
/** One that passes none. */
export const REFUSED = Number.POSITIVE_INFINITY

/** No limit is higher. */
const HIGHEST_LIMIT = 0xffffffff

/** The number of the last event in its window: 1, 2, … */
interface Rank {
  last: number
}

class RankedFixedWindows extends FixedWindows {
  readonly #rank: Rank

  constructor(limit: Limit, rank: Rank) {
    super(limit)
    this.#rank = rank
  }

  override take(bucket: number, now: number): boolean {
    const taken = super.take(bucket, now)
    this.#rank.last = this.counts[bucket]!
    return taken
  }
}

class RankedPeriodWindows extends PeriodWindows {
  readonly #rank: Rank

  constructor(limit: Limit, rank: Rank) {
    super(limit, new AlignedPeriods(limit.windowMs), new WallTime())
    this.#rank = rank
  }

  override take(bucket: number, now: number): boolean {
    const taken = super.take(bucket, now)
    this.#rank.last = this.counts[bucket]!
    return taken
  }
}

/**
 * Numbers the events in each window of a bucket, at times given by the caller. Fixed and aligned windows begin at the
 * same times whatever their limit is, so one pass over the events decides for all limits: an event passes a limit that
 * is not below its number. There must be one limit, of events that cost 1.
 */
export class RankedDecider extends Decider {
  readonly #rank: Rank

  constructor(options: DeciderOptions) {
    const rank: Rank = { last: 0 }
    const limit = { ...options.limits[0]!, limit: HIGHEST_LIMIT }
    const create = (): LimitWindows =>
      limit.mode === 'aligned' ? new RankedPeriodWindows(limit, rank) : new RankedFixedWindows(limit, rank)
    super(options, new KeyedLimiter(options, undefined, create))
    this.#rank = rank
  }

  /** The number of an event in its window; EXEMPT, UNCOUNTED or REFUSED if it is not counted. */
  rank(batch: EventBatch, i: number, now: number): number {
    this.limiter.advance(now)
    switch (this.decideOne(batch, i, now)) {
      case EXCLUDED:
        return EXEMPT
      case FAIL_OPEN:
        return UNCOUNTED
      case FULL:
        return REFUSED
      default:
        return this.#rank.last
    }
  }
}
