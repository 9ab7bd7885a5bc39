/** The three ways to count events in windows of time. Each holds the state of many buckets, by id: 0, 1, 2, … */

export type WindowMode = 'fixed' | 'aligned' | 'sliding'

export interface Windows {
  /** Whether an event of `bucket` at `now` is within the limit; then it is counted. */
  take(bucket: number, now: number): boolean
  /** Whether nothing that was counted matters any more at `now`. */
  idle(bucket: number, now: number): boolean
  /** Moves the state of a bucket of other windows of the same kind here. */
  adopt(bucket: number, from: Windows, fromBucket: number): void
  /** Makes room for buckets below `capacity`; new ones are empty. */
  reserve(capacity: number): void
}

export function createWindows(mode: WindowMode, limit: number, windowMs: number): Windows {
  if (mode === 'sliding') return new SlidingWindows(limit, windowMs)
  return new CountedWindows(limit, windowMs, mode === 'aligned')
}

/**
 * fixed: a window opens at the bucket's first counted event and covers [t, t + window). aligned: windows start at the
 * multiples of the window. An event from before its bucket's window is counted in it.
 */
class CountedWindows implements Windows {
  readonly #limit: number
  readonly #windowMs: number
  readonly #aligned: boolean
  #counts = new Uint32Array(8)
  #opened = new Float64Array(8)

  constructor(limit: number, windowMs: number, aligned: boolean) {
    this.#limit = limit
    this.#windowMs = windowMs
    this.#aligned = aligned
  }

  take(bucket: number, now: number): boolean {
    const count = this.#counts[bucket]!
    if (count === 0 || now - this.#opened[bucket]! >= this.#windowMs) {
      this.#opened[bucket] = this.#aligned ? Math.floor(now / this.#windowMs) * this.#windowMs : now
      this.#counts[bucket] = 1
      return true
    }
    if (count >= this.#limit) return false
    this.#counts[bucket] = count + 1
    return true
  }

  idle(bucket: number, now: number): boolean {
    return this.#counts[bucket] === 0 || now - this.#opened[bucket]! >= this.#windowMs
  }

  adopt(bucket: number, from: CountedWindows, fromBucket: number): void {
    this.#counts[bucket] = from.#counts[fromBucket]!
    this.#opened[bucket] = from.#opened[fromBucket]!
  }

  reserve(capacity: number): void {
    if (capacity <= this.#counts.length) return
    const size = Math.max(capacity, this.#counts.length * 2)
    const counts = new Uint32Array(size)
    counts.set(this.#counts)
    this.#counts = counts
    const opened = new Float64Array(size)
    opened.set(this.#opened)
    this.#opened = opened
  }
}

/** What passed in one bucket lately, as runs of events that passed at the same time; a ring that grows when needed. */
interface Passed {
  times: Float64Array
  counts: Float64Array
  first: number
  runs: number
  total: number
}

/** sliding: an event passes while fewer than `limit` events of its bucket passed in (t - window, t]. Exact. */
class SlidingWindows implements Windows {
  readonly #limit: number
  readonly #windowMs: number
  readonly #buckets: (Passed | undefined)[] = []

  constructor(limit: number, windowMs: number) {
    this.#limit = limit
    this.#windowMs = windowMs
  }

  take(bucket: number, now: number): boolean {
    const passed = (this.#buckets[bucket] ??= {
      times: new Float64Array(2),
      counts: new Float64Array(2),
      first: 0,
      runs: 0,
      total: 0,
    })
    this.#forget(passed, now)
    if (passed.total >= this.#limit) return false
    const last = (passed.first + passed.runs - 1) & (passed.times.length - 1)
    // An event from before the newest one counts at the newest one's time.
    if (passed.runs > 0 && passed.times[last]! >= now) passed.counts[last]! += 1
    else {
      if (passed.runs === passed.times.length) grow(passed)
      const at = (passed.first + passed.runs++) & (passed.times.length - 1)
      passed.times[at] = now
      passed.counts[at] = 1
    }
    passed.total++
    return true
  }

  #forget(passed: Passed, now: number): void {
    while (passed.runs > 0 && now - passed.times[passed.first]! >= this.#windowMs) {
      passed.total -= passed.counts[passed.first]!
      passed.first = (passed.first + 1) & (passed.times.length - 1)
      passed.runs--
    }
  }

  idle(bucket: number, now: number): boolean {
    const passed = this.#buckets[bucket]
    if (!passed || passed.runs === 0) return true
    const last = (passed.first + passed.runs - 1) & (passed.times.length - 1)
    return now - passed.times[last]! >= this.#windowMs
  }

  adopt(bucket: number, from: SlidingWindows, fromBucket: number): void {
    this.#buckets[bucket] = from.#buckets[fromBucket]
    from.#buckets[fromBucket] = undefined
  }

  reserve(): void {}
}

/** Twice the room; the oldest run comes first again. */
function grow(passed: Passed): void {
  const size = passed.times.length
  const times = new Float64Array(size * 2)
  const counts = new Float64Array(size * 2)
  for (let i = 0; i < passed.runs; i++) {
    const at = (passed.first + i) & (size - 1)
    times[i] = passed.times[at]!
    counts[i] = passed.counts[at]!
  }
  passed.times = times
  passed.counts = counts
  passed.first = 0
}
