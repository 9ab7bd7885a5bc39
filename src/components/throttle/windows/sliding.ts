import { DISCARD, PASS, type WindowDecision } from '../decisions.js'
import type { Level, Limit } from '../limit.js'
import type { StateReader, StateWriter } from '../persist/state-bytes.js'
import { LimitWindows } from '../windows.js'

/** The runs of one bucket except its newest run, as a growable ring. A run is the amount that passed at one time. */
interface Runs {
  times: Float64Array
  counts: Float64Array
  first: number
  length: number
  total: number
}

/**
 * sliding: an event at t passes if its amount plus all that its bucket passed in (t - window, t] is within the limit.
 * The sum is exact, because the times of passed events are stored. These times take up to 16 bytes for each event in
 * the window, or 32 bytes with spare room. An event that is older than the newest event is counted at the time of the
 * newest event.
 */
export class SlidingWindows extends LimitWindows {
  readonly #windowMs: number
  readonly #older: (Runs | undefined)[] = []

  constructor(limit: Limit) {
    super(limit)
    this.#windowMs = limit.windowMs
  }

  /** The amount in the window that ends at `now`. Forgets older runs. */
  #used(bucket: number, now: number): number {
    if (now - this.times[bucket]! >= this.#windowMs) return 0
    const older = this.#older[bucket]
    if (!older) return this.counts[bucket]!
    this.#forget(older, now)
    return this.counts[bucket]! + older.total
  }

  fits(bucket: number, now: number, cost: number): WindowDecision {
    return this.#used(bucket, now) + cost <= this.limitUnitsOf(bucket) ? PASS : DISCARD
  }

  charge(bucket: number, now: number, cost: number): void {
    const newest = this.times[bucket]!
    if (now <= newest) {
      this.counts[bucket]! += cost
      return
    }
    const older = this.#older[bucket]
    if (now - newest >= this.#windowMs) {
      if (older) this.#older[bucket] = undefined
    } else append(older ?? this.#addOlder(bucket), newest, this.counts[bucket]!)
    this.times[bucket] = now
    this.counts[bucket] = cost
  }

  override roomAt(bucket: number, now: number, cost: number): number {
    if (cost > this.limitUnitsOf(bucket)) return Number.POSITIVE_INFINITY
    let used = this.#used(bucket, now)
    if (used + cost <= this.limitUnitsOf(bucket)) return now
    const older = this.#older[bucket]
    for (let n = 0; older && n < older.length; n++) {
      const at = (older.first + n) & (older.times.length - 1)
      used -= older.counts[at]!
      if (used + cost <= this.limitUnitsOf(bucket)) return older.times[at]! + this.#windowMs
    }
    return this.times[bucket]! + this.#windowMs
  }

  level(bucket: number, now: number): Level {
    const newest = this.times[bucket]!
    const used = this.#used(bucket, now)
    if (now - newest >= this.#windowMs) return this.levelOf(bucket, 0, now, now)
    const older = this.#older[bucket]
    const since = older && older.length > 0 ? older.times[older.first]! : newest
    return this.levelOf(bucket, used, since, newest + this.#windowMs)
  }

  #addOlder(bucket: number): Runs {
    const runs = { times: new Float64Array(4), counts: new Float64Array(4), first: 0, length: 0, total: 0 }
    // Sets the full length first, because an array with large gaps would become a dictionary.
    if (this.#older.length < this.counts.length) this.#older.length = this.counts.length
    this.#older[bucket] = runs
    return runs
  }

  #forget(runs: Runs, now: number): void {
    const { times, counts } = runs
    while (runs.length > 0 && now - times[runs.first]! >= this.#windowMs) {
      runs.total -= counts[runs.first]!
      runs.first = (runs.first + 1) & (times.length - 1)
      runs.length--
    }
  }

  override adopt(bucket: number, from: SlidingWindows, fromBucket: number): void {
    super.adopt(bucket, from, fromBucket)
    const older = from.#older[fromBucket]
    if (!older && !this.#older[bucket]) return
    if (this.#older.length < this.counts.length) this.#older.length = this.counts.length
    this.#older[bucket] = older
  }

  override write(bucket: number, to: StateWriter): void {
    super.write(bucket, to)
    const older = this.#older[bucket]
    to.whole(older ? older.length : 0)
    for (let n = 0; older && n < older.length; n++) {
      const at = (older.first + n) & (older.times.length - 1)
      to.number(older.times[at]!)
      to.number(older.counts[at]!)
    }
  }

  override read(bucket: number, from: StateReader): void {
    super.read(bucket, from)
    this.#older[bucket] = undefined
    const length = from.whole()
    const older = length > 0 ? this.#addOlder(bucket) : undefined
    for (let n = 0; older && n < length; n++) append(older, from.time(), from.number())
  }
}

function append(runs: Runs, time: number, count: number): void {
  if (runs.length === runs.times.length) grow(runs)
  const at = (runs.first + runs.length) & (runs.times.length - 1)
  runs.times[at] = time
  runs.counts[at] = count
  runs.length++
  runs.total += count
}

/** Doubles the capacity. The oldest run moves to the first element. */
function grow(runs: Runs): void {
  const size = runs.times.length
  const times = new Float64Array(size * 2)
  const counts = new Float64Array(size * 2)
  for (let i = 0; i < runs.length; i++) {
    const at = (runs.first + i) & (size - 1)
    times[i] = runs.times[at]!
    counts[i] = runs.counts[at]!
  }
  runs.times = times
  runs.counts = counts
  runs.first = 0
}
