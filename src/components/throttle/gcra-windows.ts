import { DISCARD, PASS, type Taken } from './decisions.js'
import { GcraRate, GcraTime } from './gcra-rate.js'
import type { Level, Limit } from './limit.js'
import { LimitWindows } from './windows.js'

/** A microsecond: above the precision of times since the epoch. */
const STEP_MS = 1 / 1000

/**
 * gcra: with T = window / limit, an event at t passes if t >= TAT - burst * T, the tolerance; then TAT becomes
 * max(t, TAT) + cost * T. The columns hold the TAT: whole milliseconds, and the rest in parts (GcraRate).
 */
export class GcraWindows extends LimitWindows {
  readonly #rate: GcraRate
  readonly #time: GcraTime

  constructor(limit: Limit) {
    const rate = new GcraRate(limit)
    super(limit, Math.ceil(rate.tolerance.value + new GcraTime(rate).add(1).value))
    this.#rate = rate
    this.#time = new GcraTime(rate)
  }

  /** The bucket is idle from its TAT on, which one event of a large cost can move far ahead. */
  override latest(bucket: number): number {
    return this.times[bucket]! + 1 - this.spanMs
  }

  /** Whatever it costs: a cost delays what comes after it. */
  fits(bucket: number, now: number): Taken {
    const { tolerance } = this.#rate
    const latest = this.#time.setTime(now).shift(tolerance.ms, tolerance.rest)
    return latest.isBefore(this.times[bucket]!, this.counts[bucket]!) ? DISCARD : PASS
  }

  charge(bucket: number, now: number, cost: number): void {
    const time = this.#time.setTime(now)
    if (time.isBefore(this.times[bucket]!, this.counts[bucket]!)) time.set(this.times[bucket]!, this.counts[bucket]!)
    time.add(cost)
    this.times[bucket] = time.ms
    this.counts[bucket] = time.rest
  }

  override roomAt(bucket: number, now: number): number {
    if (this.fits(bucket, now) === PASS) return now
    const { tolerance } = this.#rate
    const at = this.#time.set(this.times[bucket]!, this.counts[bucket]!).shift(-tolerance.ms, -tolerance.rest).value
    return this.fits(bucket, at) === PASS ? at : at + STEP_MS
  }

  level(bucket: number, now: number): Level {
    const until = this.#time.set(this.times[bucket]!, this.counts[bucket]!).value
    return until <= now
      ? this.levelOf(bucket, 0, now, now)
      : this.levelOf(bucket, this.#rate.costsIn(until - now), now, until)
  }
}
