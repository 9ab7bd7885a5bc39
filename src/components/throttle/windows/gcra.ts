import { LARGEST_MS } from '../../../lib/formats/iso-time.js'
import { DISCARD, PASS, type WindowDecision } from '../decisions.js'
import { type Level, type Limit, scaleOf } from '../limit.js'
import { LimitWindows } from '../windows.js'

/** A microsecond. Adding it always changes a time since the epoch, because these times are more precise. */
const STEP_MS = 1 / 1000

/**
 * gcra: T is window / limit, and the tolerance is burst * T. TAT is the theoretical arrival time. An event at t passes
 * if t >= TAT - tolerance. Then TAT becomes max(t, TAT) + cost * T. `times` holds the whole milliseconds of TAT, and
 * `counts` holds the rest in parts (see GcraRate).
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

  /** The bucket becomes idle at its TAT. A single event with a large cost can move the TAT far into the future. */
  override latest(bucket: number): number {
    return this.times[bucket]! + 1 - this.spanMs
  }

  /** The cost of the event does not matter here, because the cost only delays later events. */
  fits(bucket: number, now: number): WindowDecision {
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

/**
 * Exact times for GCRA: whole milliseconds since the epoch, and a rest in parts of a millisecond. A double cannot hold
 * nanoseconds since the epoch, so times are kept as two numbers.
 */

const NS_PER_MS = 1_000_000
/** Maximum number of parts per millisecond for which the sum of two rests is exact. */
const MOST_PARTS = 2 ** 52
const FARTHEST_MS = LARGEST_MS / 2
/** Parts per nanosecond if the exact number is too large. Costs are then rounded by much less than a nanosecond. */
const PARTS_PER_NS = 2 ** 30

/** For one limit: T = window / limit, and tolerance = burst * T. */
export class GcraRate {
  /** Parts per millisecond, chosen so that T and a nanosecond are whole numbers of parts. */
  readonly parts: number
  /** T in parts. */
  readonly #unitParts: number
  readonly #unitMs: number
  readonly #unitRest: number
  readonly tolerance: GcraTime

  constructor(limit: Limit) {
    const scale = scaleOf(limit)
    const window = BigInt(Math.round(limit.windowMs * NS_PER_MS))
    const per = BigInt(limit.limit * scale) * BigInt(NS_PER_MS)
    const exact = lcm(per / gcd(window, per), BigInt(NS_PER_MS))
    const parts = exact <= BigInt(MOST_PARTS) ? exact : BigInt(NS_PER_MS * PARTS_PER_NS)
    const unit = (window * parts + per / 2n) / per
    this.parts = Number(parts)
    this.#unitParts = Number(unit)
    this.#unitMs = Number(unit / parts)
    this.#unitRest = Number(unit % parts)
    this.tolerance = new GcraTime(this).add((limit.burst ?? limit.limit - 1) * scale)
  }

  /** Adds cost * T to `time`. */
  addTo(time: GcraTime, cost: number): void {
    if (cost === 1) {
      time.shift(this.#unitMs, this.#unitRest)
      return
    }
    // The cost that `level` gives may be a fraction. Rounding makes up for its division.
    const inParts = Math.round(cost * this.#unitParts)
    if (inParts <= Number.MAX_SAFE_INTEGER) {
      const ms = Math.floor(inParts / this.parts)
      time.shift(ms, inParts - ms * this.parts)
    } else this.#addLarge(time, Math.min(cost, Number.MAX_SAFE_INTEGER))
  }

  /** Adds each power of two in `cost`, times T, because the product of `cost` and T may have 106 bits. */
  #addLarge(time: GcraTime, cost: number): void {
    let ms = this.#unitMs
    let rest = this.#unitRest
    for (let left = Math.floor(cost); left > 0; left = Math.floor(left / 2)) {
      if (left % 2 === 1) time.shift(ms, rest)
      ms *= 2
      rest *= 2
      if (rest >= this.parts) {
        ms++
        rest -= this.parts
      }
    }
  }

  costsIn(ms: number): number {
    return (ms * this.parts) / this.#unitParts
  }
}

/** A time or duration that is changed in place. */
export class GcraTime {
  ms = 0
  rest = 0
  readonly #rate: GcraRate

  constructor(rate: GcraRate) {
    this.#rate = rate
  }

  set(ms: number, rest: number): this {
    this.ms = ms
    this.rest = rest
    return this
  }

  /** Sets a time in milliseconds, rounded to nanoseconds. */
  setTime(time: number): this {
    const ms = Math.floor(time)
    this.set(ms, 0)
    if (ms !== time) this.shift(0, Math.round((time - ms) * NS_PER_MS) * (this.#rate.parts / NS_PER_MS))
    return this
  }

  /** Adds a duration, whose `rest` is at most a whole millisecond. */
  shift(ms: number, rest: number): this {
    this.ms += ms
    this.rest += rest
    const { parts } = this.#rate
    if (this.rest >= parts) {
      this.ms++
      this.rest -= parts
    } else if (this.rest < 0) {
      this.ms--
      this.rest += parts
    }
    return this
  }

  add(cost: number): this {
    this.#rate.addTo(this, cost)
    return this
  }

  isBefore(ms: number, rest: number): boolean {
    return this.ms < ms || (this.ms === ms && this.rest < rest)
  }

  /** In milliseconds, rounded, at most FARTHEST_MS. */
  get value(): number {
    return Math.min(this.ms + this.rest / this.#rate.parts, FARTHEST_MS)
  }
}

function gcd(a: bigint, b: bigint): bigint {
  while (b > 0n) [a, b] = [b, a % b]
  return a
}

function lcm(a: bigint, b: bigint): bigint {
  return (a / gcd(a, b)) * b
}
