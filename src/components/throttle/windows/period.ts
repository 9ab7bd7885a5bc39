import { DISCARD, PASS, type WindowDecision } from '../decisions.js'
import type { Level, Limit } from '../limit.js'
import type { StateReader } from '../persist/state-bytes.js'
import { LimitWindows } from '../windows.js'
import type { Periods } from './periods.js'
import type { WallTime } from './wall-time.js'

/**
 * Windows that are periods of the wall clock, for aligned limits and quotas. If an event is older than the period of
 * its bucket, this period counts the event. So the limit is not granted twice if the clock is set back.
 */
export class PeriodWindows extends LimitWindows {
  readonly #periods: Periods
  readonly #wall: WallTime
  /** Caches the last wall time and the start of its period, because all events of a batch have the same time. */
  #at = Number.NaN
  #startOfIt = 0

  constructor(limit: Limit, periods: Periods, wall: WallTime) {
    super(limit)
    this.#periods = periods
    this.#wall = wall
  }

  /** The bucket is idle when its period ends, however long the period is. */
  override latest(bucket: number): number {
    const start = this.times[bucket]!
    return start === Number.NEGATIVE_INFINITY ? start : this.#endOf(bucket) - this.spanMs
  }

  #start(now: number): number {
    const wall = now + this.#wall.offsetMs
    if (wall !== this.#at) {
      this.#startOfIt = this.#periods.startOf(wall)
      this.#at = wall
    }
    return this.#startOfIt
  }

  #used(bucket: number, start: number): number {
    return this.times[bucket]! < start ? 0 : this.counts[bucket]!
  }

  fits(bucket: number, now: number, cost: number): WindowDecision {
    return this.#used(bucket, this.#start(now)) + cost <= this.limitUnitsOf(bucket) ? PASS : DISCARD
  }

  charge(bucket: number, now: number, cost: number): void {
    const start = this.#start(now)
    this.counts[bucket] = this.#used(bucket, start) + cost
    if (this.times[bucket]! < start) this.times[bucket] = start
  }

  override roomAt(bucket: number, now: number, cost: number): number {
    if (this.fits(bucket, now, cost) === PASS) return now
    return cost > this.limitUnitsOf(bucket) ? Number.POSITIVE_INFINITY : this.#endOf(bucket)
  }

  /** When the bucket's period ends, by the clock of the decisions. */
  #endOf(bucket: number): number {
    return this.#periods.endOf(this.times[bucket]!) - this.#wall.offsetMs
  }

  level(bucket: number, now: number): Level {
    if (this.times[bucket]! < this.#start(now)) return this.levelOf(bucket, 0, now, now)
    return this.levelOf(bucket, this.counts[bucket]!, this.times[bucket]! - this.#wall.offsetMs, this.#endOf(bucket))
  }

  /** If the wall clock was set back, a saved period in the future becomes the current period. */
  override read(bucket: number, from: StateReader): void {
    this.times[bucket] = Math.min(from.number(), this.#start(from.now))
    this.counts[bucket] = from.number()
  }

  override restartAligned(): void {
    if (this.limit.mode === 'aligned') this.times.fill(Number.NEGATIVE_INFINITY)
  }
}
