/** Three ways to count events in time windows. Each holds the state of many buckets, by id: 0, 1, 2, … */

export type WindowMode = 'fixed' | 'aligned' | 'sliding'

/** Two growable columns: a time and a count per bucket. Subclasses add the state of their mode. */
export abstract class BucketColumns {
  /** Events counted in the newest window or run; 0: the bucket is empty. */
  protected counts = new Uint32Array(8)
  /** When that window opened or that run passed. */
  protected times = new Float64Array(8)

  /** The time whose counts matter for one window length. */
  latest(bucket: number): number {
    return this.counts[bucket] === 0 ? Number.NEGATIVE_INFINITY : this.times[bucket]!
  }

  /** Moves the state of a bucket from other windows of the same mode; the bucket there becomes empty. */
  adopt(bucket: number, from: BucketColumns, fromBucket: number): void {
    this.counts[bucket] = from.counts[fromBucket]!
    this.times[bucket] = from.times[fromBucket]!
    from.counts[fromBucket] = 0
  }

  /** Makes room for buckets below `capacity`; new ones are empty. */
  reserve(capacity: number): void {
    if (capacity <= this.counts.length) return
    const size = Math.max(capacity, this.counts.length * 2)
    const counts = new Uint32Array(size)
    counts.set(this.counts)
    this.counts = counts
    const times = new Float64Array(size)
    times.set(this.times)
    this.times = times
  }

  /** Releases shared resources of windows that are no longer needed. */
  release(): void {}
}

/** Windows in clock time: a bucket has one open window. */
export abstract class Windows extends BucketColumns {
  /** Returns whether an event of `bucket` at `now` is within the limit, and counts it if so. */
  abstract take(bucket: number, now: number): boolean

  /** Number of events that the bucket admits besides those so far, at the time of the last of them. */
  protected abstract room(bucket: number): number

  /** The same as calling `take` for each of so many events. Returns how many are within the limit: the first ones. */
  takeMany(bucket: number, events: number, now: number): number {
    if (events === 0 || !this.take(bucket, now)) return 0
    const more = Math.min(events - 1, this.room(bucket))
    this.counts[bucket]! += more
    return 1 + more
  }
}

/**
 * fixed: a window opens at the bucket's first counted event and covers [t, t + window). aligned: windows start at the
 * multiples of the window. An event from before its bucket's window counts in that window.
 */
class CountedWindows extends Windows {
  readonly #limit: number
  readonly #windowMs: number
  readonly #aligned: boolean

  constructor(limit: number, windowMs: number, aligned: boolean) {
    super()
    this.#limit = limit
    this.#windowMs = windowMs
    this.#aligned = aligned
  }

  take(bucket: number, now: number): boolean {
    const count = this.counts[bucket]!
    if (count === 0 || now - this.times[bucket]! >= this.#windowMs) {
      this.times[bucket] = this.#aligned ? Math.floor(now / this.#windowMs) * this.#windowMs : now
      this.counts[bucket] = 1
      return true
    }
    if (count >= this.#limit) return false
    this.counts[bucket] = count + 1
    return true
  }

  protected override room(bucket: number): number {
    return this.#limit - this.counts[bucket]!
  }
}

/** The events that passed in one bucket before its newest run, as runs of events of the same time: a growable ring. */
interface Runs {
  times: Float64Array
  counts: Uint32Array
  first: number
  length: number
  /** Number of events in all runs. */
  total: number
}

/**
 * sliding: an event passes if fewer than `limit` events of its bucket passed in (t - window, t]. This is exact, and
 * therefore stores the times of passed events: up to 12 bytes, or 24 with spare room, per event of the window. An event
 * from before the newest one counts at the newest one's time.
 */
class SlidingWindows extends Windows {
  readonly #limit: number
  readonly #windowMs: number
  readonly #older: (Runs | undefined)[] = []

  constructor(limit: number, windowMs: number) {
    super()
    this.#limit = limit
    this.#windowMs = windowMs
  }

  take(bucket: number, now: number): boolean {
    const count = this.counts[bucket]!
    const newest = this.times[bucket]!
    if (count === 0 || now - newest >= this.#windowMs) {
      if (this.#older[bucket]) this.#older[bucket] = undefined
      this.times[bucket] = now
      this.counts[bucket] = 1
      return true
    }
    const older = this.#older[bucket]
    if (older) this.#forget(older, now)
    if (count + (older ? older.total : 0) >= this.#limit) return false
    if (now <= newest) {
      this.counts[bucket] = count + 1
      return true
    }
    append(older ?? this.#addOlder(bucket), newest, count)
    this.times[bucket] = now
    this.counts[bucket] = 1
    return true
  }

  protected override room(bucket: number): number {
    return this.#limit - this.counts[bucket]! - (this.#older[bucket]?.total ?? 0)
  }

  #addOlder(bucket: number): Runs {
    const runs = { times: new Float64Array(4), counts: new Uint32Array(4), first: 0, length: 0, total: 0 }
    // Grow at once: an array with large gaps would become a dictionary.
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
    if (!older) return
    if (this.#older.length < this.counts.length) this.#older.length = this.counts.length
    this.#older[bucket] = older
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

/** Doubles the capacity; the oldest run becomes the first element. */
function grow(runs: Runs): void {
  const size = runs.times.length
  const times = new Float64Array(size * 2)
  const counts = new Uint32Array(size * 2)
  for (let i = 0; i < runs.length; i++) {
    const at = (runs.first + i) & (size - 1)
    times[i] = runs.times[at]!
    counts[i] = runs.counts[at]!
  }
  runs.times = times
  runs.counts = counts
  runs.first = 0
}

export function createWindows(mode: WindowMode, limit: number, windowMs: number): Windows {
  if (mode === 'sliding') return new SlidingWindows(limit, windowMs)
  return new CountedWindows(limit, windowMs, mode === 'aligned')
}
