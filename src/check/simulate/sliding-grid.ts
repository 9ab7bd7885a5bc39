import { OnlyTaken, type Outcome } from './grid-windows.js'

/** What passed in one bucket and is in the window, in order of time: entries in a growable ring. */
class Passed {
  /** How much each trial let pass. */
  readonly used: Float64Array
  length = 0
  #first = 0
  #times = new Float64Array(4)
  /** The trials [from, to) let events of this time pass, so many each. */
  #from = new Uint16Array(4)
  #to = new Uint16Array(4)
  #counts = new Float64Array(4)

  constructor(trials: number) {
    this.used = new Float64Array(trials)
  }

  /** Forgets what is no longer in the window that ends at `now`. */
  forget(now: number, windowMs: number): void {
    while (this.length > 0 && now - this.#times[this.#first]! >= windowMs) {
      const first = this.#first
      this.#add(this.#from[first]!, this.#to[first]!, -this.#counts[first]!)
      this.#first = this.#place(1)
      this.length--
    }
  }

  /** The time of the newest event that a trial let pass. */
  newest(trial: number): number {
    for (let n = this.length - 1; n >= 0; n--) {
      const at = this.#place(n)
      if (this.#from[at]! <= trial && trial < this.#to[at]!) return this.#times[at]!
    }
    return Number.NEGATIVE_INFINITY
  }

  /** Counts an event of the trials [from, to). */
  count(time: number, from: number, to: number): void {
    this.#add(from, to, 1)
    let n = this.length
    while (n > 0 && this.#times[this.#place(n - 1)]! > time) n--
    const before = this.#place(n - 1)
    const isSame = this.#times[before] === time && this.#from[before] === from && this.#to[before] === to
    if (n > 0 && isSame) this.#counts[before]!++
    else this.#insert(n, time, from, to)
  }

  #insert(n: number, time: number, from: number, to: number): void {
    if (this.length === this.#times.length) this.#grow()
    for (let later = this.length; later > n; later--) this.#copy(this.#place(later - 1), this.#place(later))
    this.length++
    const at = this.#place(n)
    this.#times[at] = time
    this.#from[at] = from
    this.#to[at] = to
    this.#counts[at] = 1
  }

  #copy(source: number, target: number): void {
    for (const column of [this.#times, this.#from, this.#to, this.#counts]) column[target] = column[source]!
  }

  #add(from: number, to: number, count: number): void {
    for (let k = from; k < to; k++) this.used[k]! += count
  }

  #place(n: number): number {
    return (this.#first + n) & (this.#times.length - 1)
  }

  #grow(): void {
    const rotated = <T extends Float64Array | Uint16Array>(from: T, to: T): T => {
      to.set(from.subarray(this.#first))
      to.set(from.subarray(0, this.#first), from.length - this.#first)
      return to
    }
    const size = this.#times.length * 2
    this.#times = rotated(this.#times, new Float64Array(size))
    this.#from = rotated(this.#from, new Uint16Array(size))
    this.#to = rotated(this.#to, new Uint16Array(size))
    this.#counts = rotated(this.#counts, new Float64Array(size))
    this.#first = 0
  }
}

/**
 * Sliding windows (`SlidingWindows`) of several limits of events that cost 1. Of events in order, what passes one limit
 * passes all higher ones, so that one entry serves all trials, not one for each of them.
 */
export class SlidingGrid extends OnlyTaken {
  override readonly spanMs: number
  readonly #limits: Float64Array
  readonly #outcome: Outcome
  readonly #buckets: (Passed | undefined)[] = []

  /** `limits`: ascending. */
  constructor(limits: readonly number[], windowMs: number, outcome: Outcome) {
    super()
    this.spanMs = windowMs
    this.#limits = new Float64Array(limits)
    this.#outcome = outcome
  }

  take(bucket: number, now: number): boolean {
    const passed = this.#buckets[bucket] ?? this.#begin(bucket)
    const limits = this.#limits
    const outcome = this.#outcome
    const { used } = passed
    passed.forget(now, this.spanMs)
    for (let k = 0; k < limits.length; k++) outcome[k] = used[k]! < limits[k]! ? 0 : 1
    const isInOrder = now >= this.times[bucket]!
    for (let from = 0; from < limits.length; from++) {
      if (outcome[from] === 1) continue
      const time = isInOrder ? now : this.#timeOf(passed, from, now)
      let to = from + 1
      while (to < limits.length && outcome[to] === 0 && (isInOrder || this.#timeOf(passed, to, now) === time)) to++
      passed.count(time, from, to)
      if (time > this.times[bucket]!) this.times[bucket] = time
      from = to - 1
    }
    return true
  }

  /** An event from before the newest one counts at the newest one's time. */
  #timeOf(passed: Passed, trial: number, now: number): number {
    return Math.max(passed.newest(trial), now)
  }

  #begin(bucket: number): Passed {
    // Grow at once: an array with large gaps would become a dictionary.
    if (this.#buckets.length < this.counts.length) this.#buckets.length = this.counts.length
    const passed = new Passed(this.#limits.length)
    this.#buckets[bucket] = passed
    return passed
  }

  override adopt(bucket: number, from: SlidingGrid, fromBucket: number): void {
    super.adopt(bucket, from, fromBucket)
    const passed = from.#buckets[fromBucket]
    if (!passed && !this.#buckets[bucket]) return
    if (this.#buckets.length < this.counts.length) this.#buckets.length = this.counts.length
    this.#buckets[bucket] = passed
  }
}
