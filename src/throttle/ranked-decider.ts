import type { EventBatch } from '../core/event/batch.js'
import { type DeciderOptions, FAIL_OPEN, FULL, KeyedDecider, type Limiter, PASS } from './decider.js'
import { KeyedBuckets } from './keyed-buckets.js'
import type { Level } from './limit.js'
import { createWindows } from './several-windows.js'
import { WallTime } from './wall-time.js'
import type { Windows } from './windows.js'

/** An excluded event. */
export const EXEMPT = -1
/** An event of a new key beyond `maxKeys` that passes every limit. */
export const UNCOUNTED = 0
/** One that passes none. */
export const REFUSED = Number.POSITIVE_INFINITY

/** No limit is higher. */
const HIGHEST_LIMIT = 0xffffffff

/**
 * Numbers the events in each window of a bucket. Fixed and aligned windows open at the same times whatever the limit
 * is, so one pass over the events decides for all limits: an event passes a limit that is not below its number.
 */
class RankingLimiter implements Limiter<typeof PASS> {
  /** The number of the last event in its window: 1, 2, … */
  rank = 0
  readonly #default: Windows
  readonly #buckets: KeyedBuckets<Windows>

  constructor({ limits, maxKeys, seed }: DeciderOptions) {
    const limit = { ...limits[0]!, limit: HIGHEST_LIMIT }
    const wall = new WallTime()
    const create = () => createWindows([limit], wall)
    this.#default = create()
    this.#buckets = new KeyedBuckets({ idleMs: limit.windowMs, maxKeys, seed, keepsUsed: false }, create)
  }

  advance(now: number): void {
    this.#buckets.advance(now)
  }

  takeDefault(now: number): typeof PASS {
    return this.#take(this.#default, 0, now)
  }

  take(bytes: DataView, start: number, end: number, now: number): typeof PASS | typeof FULL {
    const id = this.#buckets.bucket(bytes, start, end, now)
    return id < 0 ? FULL : this.#take(this.#buckets.windows, id, now)
  }

  takeDefaultCost(now: number): typeof PASS {
    return this.takeDefault(now)
  }

  takeCost(bytes: DataView, start: number, end: number, now: number): typeof PASS | typeof FULL {
    return this.take(bytes, start, end, now)
  }

  level(bytes: DataView, start: number, end: number, now: number, cost: number, size: number): Level | undefined {
    const id = this.#buckets.bucket(bytes, start, end, now)
    return id < 0 ? undefined : this.#buckets.windows.level(id, now, cost, size)
  }

  levelOfDefault(now: number, cost: number, size: number): Level {
    return this.#default.level(0, now, cost, size)
  }

  #take(windows: Windows, bucket: number, now: number): typeof PASS {
    windows.take(bucket, now)
    this.rank = windows.counted(bucket)
    return PASS
  }
}

/** Decides at times given by the caller, for all limits at once. There is one limit of events, with fixed or aligned windows. */
export class RankedDecider extends KeyedDecider<typeof PASS> {
  override readonly limiter: RankingLimiter

  constructor(options: DeciderOptions) {
    super(options)
    this.limiter = new RankingLimiter(options)
  }

  /** The number of an event in its window; EXEMPT, UNCOUNTED or REFUSED if it is not counted. */
  rank(batch: EventBatch, i: number, now: number): number {
    if (this.isExcluded(batch, i)) return EXEMPT
    this.limiter.advance(now)
    const taken = this.take(batch, i, now)
    if (taken === PASS) return this.limiter.rank
    return taken === FAIL_OPEN ? UNCOUNTED : REFUSED
  }
}
