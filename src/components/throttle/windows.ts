import { resized } from '../../lib/columns.js'
import { DISCARD, PASS, type WindowDecision } from './decisions.js'
import { type Level, type Limit, scaleOf } from './limit.js'
import type { StateReader, StateWriter } from './persist/state-bytes.js'

/** Limits over time windows. One object holds the state of many buckets, whose ids are 0, 1, 2, … */

/** Two growable columns: a time and an amount per bucket. Subclasses add the state of their mode. */
export abstract class BucketColumns {
  /** By bucket: the amount counted in its newest window or run. */
  protected counts = new Float64Array(8)
  /** By bucket: when its newest window opened, or its newest run passed; -Infinity if the bucket is empty. */
  protected times = new Float64Array(8).fill(Number.NEGATIVE_INFINITY)

  /** The bucket becomes idle at this time plus `Lifetime.idleMs`. */
  latest(bucket: number): number {
    return this.times[bucket]!
  }

  /** Moves a bucket's state from `from`, which has the same limits, to this object. Empties the bucket in `from`. */
  adopt(bucket: number, from: BucketColumns, fromBucket: number): void {
    this.counts[bucket] = from.counts[fromBucket]!
    this.times[bucket] = from.times[fromBucket]!
    from.times[fromBucket] = Number.NEGATIVE_INFINITY
  }

  /** Makes room for bucket ids below `capacity`. New buckets are empty. */
  reserve(capacity: number): void {
    const { length } = this.counts
    if (capacity <= length) return
    this.counts = resized(this.counts, capacity)
    this.times = resized(this.times, capacity).fill(Number.NEGATIVE_INFINITY, length)
  }

  write(bucket: number, to: StateWriter): void {
    to.number(this.times[bucket]!)
    to.number(this.counts[bucket]!)
  }

  /** Replaces the bucket's state with a state that `write` wrote. */
  read(bucket: number, from: StateReader): void {
    this.times[bucket] = from.time()
    this.counts[bucket] = from.number()
  }

  /** Releases shared resources. Call when the windows are no longer needed. */
  release(): void {}
}

/**
 * Applies limits to buckets. Costs are in window units (`scaleOf`). Windows with one limit use only `cost`. If this
 * limit counts bytes, `cost` is the event's size. `SeveralWindows` needs both `cost` and `bytes`.
 */
export abstract class Windows extends BucketColumns {
  /** The time from a bucket's `latest` until the bucket becomes idle. */
  abstract readonly spanMs: number

  /** Decides on an event, but does not count the event. */
  abstract fits(bucket: number, time: number, cost: number, bytes: number): WindowDecision

  abstract charge(bucket: number, time: number, cost: number, bytes: number): void

  take(bucket: number, time: number, cost: number, bytes: number): WindowDecision {
    const taken = this.fits(bucket, time, cost, bytes)
    if (taken === PASS) this.charge(bucket, time, cost, bytes)
    return taken
  }

  /**
   * For each i in [from, to): decides on an event of cost 1 in the bucket ids[i], and writes PASS or DISCARD to
   * `decisions`. Skips negative ids. Returns the number of discarded events.
   */
  takeAll(ids: Int32Array, from: number, to: number, now: number, decisions: Uint8Array): number {
    let discarded = 0
    for (let i = from; i < to; i++) {
      const bucket = ids[i]!
      if (bucket < 0) continue
      const decision = this.take(bucket, now, 1, 0)
      decisions[i] = decision
      discarded += decision
    }
    return discarded
  }

  /**
   * How full the bucket is. With several limits, describes the limit that would refuse this event. If no limit would
   * refuse the event, describes the fullest limit.
   */
  abstract level(bucket: number, time: number, cost: number, bytes: number): Level

  /** The first time at or after `now` at which an event fits if no other event passes; Infinity if never or unknown. */
  roomAt(_bucket: number, _now: number, _cost: number, _bytes: number): number {
    return Number.POSITIVE_INFINITY
  }

  /** Sets a bucket's own limits, which differ from the common limits only in their numbers. */
  abstract setLimits(bucket: number, limits: readonly Limit[]): void

  /** Forgets aligned windows. Call after the wall clock was set back. */
  restartAligned(): void {}
}

export abstract class LimitWindows extends Windows {
  override readonly spanMs: number
  readonly limit: Limit
  protected readonly limitUnits: number
  /** The limit of each bucket, in window units; undefined if `limitUnits` is the limit of all buckets. */
  protected ownLimitUnits: Float64Array | undefined

  constructor(limit: Limit, spanMs = limit.windowMs) {
    super()
    this.limit = limit
    this.spanMs = spanMs
    this.limitUnits = limit.limit * scaleOf(limit)
  }

  limitUnitsOf(bucket: number): number {
    return this.ownLimitUnits === undefined ? this.limitUnits : this.ownLimitUnits[bucket]!
  }

  setLimits(bucket: number, [limit]: readonly Limit[]): void {
    this.#setLimitUnits(bucket, limit!.limit * scaleOf(limit!))
  }

  #setLimitUnits(bucket: number, most: number): void {
    this.ownLimitUnits ??= new Float64Array(this.counts.length)
    this.ownLimitUnits[bucket] = most
  }

  override adopt(bucket: number, from: LimitWindows, fromBucket: number): void {
    super.adopt(bucket, from, fromBucket)
    if (from.ownLimitUnits) this.#setLimitUnits(bucket, from.ownLimitUnits[fromBucket]!)
  }

  override reserve(capacity: number): void {
    super.reserve(capacity)
    if (this.ownLimitUnits && this.ownLimitUnits.length < this.counts.length)
      this.ownLimitUnits = resized(this.ownLimitUnits, this.counts.length)
  }

  protected levelOf(bucket: number, used: number, since: number, until: number): Level {
    const scale = scaleOf(this.limit)
    const limit =
      this.ownLimitUnits === undefined ? this.limit : { ...this.limit, limit: this.limitUnitsOf(bucket) / scale }
    return { limit, used: used / scale, since, until }
  }
}

/**
 * fixed: if no window is open, the next event that passes opens a window at its time t. The window covers [t, t +
 * window). An event that is older than the window of its bucket is counted in this window.
 */
export class FixedWindows extends LimitWindows {
  readonly #windowMs: number

  constructor(limit: Limit) {
    super(limit)
    this.#windowMs = limit.windowMs
  }

  /** Faster than `fits` and `charge`. Speed matters here, because most throttles have a fixed limit. */
  override take(bucket: number, now: number, cost: number): WindowDecision {
    const isOpen = now - this.times[bucket]! < this.#windowMs
    const used = isOpen ? this.counts[bucket]! + cost : cost
    // V8 would not inline `limitUnitsOf`.
    if (used > (this.ownLimitUnits === undefined ? this.limitUnits : this.ownLimitUnits[bucket]!)) return DISCARD
    if (!isOpen) this.times[bucket] = now
    this.counts[bucket] = used
    return PASS
  }

  override takeAll(ids: Int32Array, from: number, to: number, now: number, decisions: Uint8Array): number {
    const { counts, times, ownLimitUnits } = this
    // Local copies, because V8 would otherwise look up and convert each of these values for each event.
    const time = +now
    const windowMs = +this.#windowMs
    const most = +this.limitUnits
    const pass = PASS | 0
    const discard = DISCARD | 0
    let discarded = 0
    for (let i = from; i < to; i++) {
      const bucket = ids[i]!
      if (bucket < 0) continue
      const count = counts[bucket]!
      if (time - times[bucket]! >= windowMs) {
        times[bucket] = time
        counts[bucket] = 1
        decisions[i] = pass
      } else if (count < (ownLimitUnits === undefined ? most : ownLimitUnits[bucket]!)) {
        counts[bucket] = count + 1
        decisions[i] = pass
      } else {
        decisions[i] = discard
        discarded++
      }
    }
    return discarded
  }

  #used(bucket: number, now: number): number {
    return now - this.times[bucket]! >= this.#windowMs ? 0 : this.counts[bucket]!
  }

  fits(bucket: number, now: number, cost: number): WindowDecision {
    return this.#used(bucket, now) + cost <= this.limitUnitsOf(bucket) ? PASS : DISCARD
  }

  charge(bucket: number, now: number, cost: number): void {
    this.counts[bucket] = this.#used(bucket, now) + cost
    if (now - this.times[bucket]! >= this.#windowMs) this.times[bucket] = now
  }

  override roomAt(bucket: number, now: number, cost: number): number {
    if (this.fits(bucket, now, cost) === PASS) return now
    return cost > this.limitUnitsOf(bucket) ? Number.POSITIVE_INFINITY : this.times[bucket]! + this.#windowMs
  }

  level(bucket: number, now: number): Level {
    const since = this.times[bucket]!
    if (now - since >= this.#windowMs) return this.levelOf(bucket, 0, now, now)
    return this.levelOf(bucket, this.counts[bucket]!, since, since + this.#windowMs)
  }
}
