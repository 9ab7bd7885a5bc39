import { DISCARD, PASS } from './decider.js'
import { EventWindows, Kept, LATE, type Progress, type Room, type TakenInTime } from './event-windows.js'

/** Columns of a kept window: its start, the latest event counted in it, and the number of events. */
const START = 0
const LATEST = 1
const COUNT = 2
const WIDTH = 3

/**
 * fixed: a window opens at the bucket's first counted event and covers [t, t + window). An earlier event that is in no
 * kept window moves the start of the next window to itself, if all events counted there remain within the window;
 * otherwise it opens its own window. So windows do not overlap, and the first event of one and the last event of the
 * next are at least a window's length apart. aligned: windows start at the multiples of the window.
 */
export class CountedEventWindows extends EventWindows {
  readonly #aligned: boolean
  /** The latest event counted in the newest window. */
  #latest = new Float64Array(8)

  constructor(limit: number, windowMs: number, aligned: boolean, progress: Progress, room: Room) {
    super(limit, windowMs, progress, room)
    this.#aligned = aligned
  }

  take(bucket: number, time: number): TakenInTime {
    const count = this.counts[bucket]!
    const start = this.times[bucket]!
    if (count > 0) {
      if (time < start) return this.#takeEarlier(bucket, time)
      if (time - start < this.windowMs) {
        if (count >= this.limit) return DISCARD
        this.counts[bucket] = count + 1
        if (time > this.#latest[bucket]!) this.#latest[bucket] = time
        return PASS
      }
      this.#keepNewest(bucket, time)
    }
    this.times[bucket] = this.#aligned ? this.#multiple(time) : time
    this.#latest[bucket] = time
    this.counts[bucket] = 1
    return PASS
  }

  #multiple(time: number): number {
    return Math.floor(time / this.windowMs) * this.windowMs
  }

  /** Before a newer window replaces it: keeps the newest window, and drops those that ended long before `time`. */
  #keepNewest(bucket: number, time: number): void {
    const from = this.progress.keptFrom(time) - this.windowMs
    let older = this.older(bucket)
    if (older && older.length > 0) this.#drop(older, from)
    if (this.times[bucket]! < from || !this.makeRoom(older, older ? older.length : 0)) return
    older ??= this.begin(bucket, new Kept(WIDTH))
    this.#insert(older, older.length, this.times[bucket]!, this.#latest[bucket]!, this.counts[bucket]!)
  }

  #drop(older: Kept, from: number): void {
    let count = 0
    while (count < older.length && older.get(count, START) < from) count++
    if (count === 0) return
    older.removeFirst(count)
    this.room.rows -= count
  }

  #insert(older: Kept, row: number, start: number, latest: number, count: number): void {
    older.insert(row)
    older.set(row, START, start)
    older.set(row, LATEST, latest)
    older.set(row, COUNT, count)
    this.room.rows++
  }

  /** Takes an event from before the newest window. */
  #takeEarlier(bucket: number, time: number): TakenInTime {
    const { windowMs } = this
    const lateBefore = this.progress.lateBefore(this.#latest[bucket]!)
    const older = this.older(bucket)
    const next = older ? older.upTo(time) : 0
    if (older && next > 0) {
      const start = older.get(next - 1, START)
      if (time - start < windowMs && start + windowMs >= lateBefore) return this.#count(older, next - 1, time)
    }
    if (this.#aligned) {
      const start = this.#multiple(time)
      return start + windowMs < lateBefore ? LATE : this.#open(bucket, start, time)
    }
    if (time < lateBefore) return LATE
    if (older && next < older.length) {
      if (older.get(next, LATEST) - time >= windowMs) return this.#open(bucket, time, time)
      const taken = this.#count(older, next, time)
      if (taken === PASS) older.set(next, START, time)
      return taken
    }
    if (this.#latest[bucket]! - time >= windowMs) return this.#open(bucket, time, time)
    if (this.counts[bucket]! >= this.limit) return DISCARD
    this.counts[bucket]!++
    this.times[bucket] = time
    return PASS
  }

  #count(older: Kept, row: number, time: number): typeof PASS | typeof DISCARD {
    const count = older.get(row, COUNT)
    if (count >= this.limit) return DISCARD
    older.set(row, COUNT, count + 1)
    if (time > older.get(row, LATEST)) older.set(row, LATEST, time)
    return PASS
  }

  /** Opens a window before the newest one. */
  #open(bucket: number, start: number, time: number): typeof PASS {
    let older = this.older(bucket)
    if (!this.makeRoom(older, older ? older.length : 0)) return PASS
    older ??= this.begin(bucket, new Kept(WIDTH))
    this.#insert(older, older.upTo(time), start, time, 1)
    return PASS
  }

  override adopt(bucket: number, from: CountedEventWindows, fromBucket: number): void {
    super.adopt(bucket, from, fromBucket)
    this.#latest[bucket] = from.#latest[fromBucket]!
  }

  override reserve(capacity: number): void {
    super.reserve(capacity)
    if (this.counts.length === this.#latest.length) return
    const latest = new Float64Array(this.counts.length)
    latest.set(this.#latest)
    this.#latest = latest
  }
}

/** Columns of a run: a time, and the number of events of this time that passed. */
const RUN_TIME = 0
const RUN_COUNT = 1
const RUN_WIDTH = 2

/** The events that passed in one bucket before its newest run. */
class Runs extends Kept {
  /** The end of the current window. It begins with row `from` and contains `within` events. */
  at: number
  from = 0
  within = 0

  constructor(at: number) {
    super(RUN_WIDTH)
    this.at = at
  }

  /** Moves the window to the one that ends at `time`. */
  advance(time: number, windowMs: number): void {
    // An event before one that was discarded finds the same window, which is full.
    if (time <= this.at) return
    this.at = time
    while (this.from < this.length && time - this.get(this.from, RUN_TIME) >= windowMs) {
      this.within -= this.get(this.from++, RUN_COUNT)
    }
  }

  /** Adds `count` events of `time`, which has no run yet. */
  add(row: number, time: number, count: number, windowMs: number): void {
    this.insert(row)
    this.set(row, RUN_TIME, time)
    this.set(row, RUN_COUNT, count)
    if (this.at - time < windowMs) this.within += count
    else this.from++
  }
}

/**
 * sliding: an event passes if no span of the window's length that contains it has `limit` passed events of its bucket.
 * For an event in order, this is the window that ends with it; for an earlier one, also the spans after it. So in any
 * order of arrival at most `limit` events pass in each span.
 */
export class SlidingEventWindows extends EventWindows {
  #runs(bucket: number): Runs | undefined {
    return this.older(bucket) as Runs | undefined
  }

  take(bucket: number, time: number): TakenInTime {
    const count = this.counts[bucket]!
    const newest = this.times[bucket]!
    if (count > 0) {
      const runs = this.#runs(bucket)
      if (time < newest) return this.#takeEarlier(bucket, time)
      runs?.advance(time, this.windowMs)
      if (time - newest < this.windowMs) {
        if (count + (runs ? runs.within : 0) >= this.limit) return DISCARD
        if (time === newest) {
          this.counts[bucket] = count + 1
          return PASS
        }
      }
      this.#keepNewest(bucket, time)
    }
    this.times[bucket] = time
    this.counts[bucket] = 1
    return PASS
  }

  /** Before a newer run replaces it: keeps the newest run, and drops those that only late events could need. */
  #keepNewest(bucket: number, time: number): void {
    const { windowMs } = this
    const newest = this.times[bucket]!
    const notNeeded = this.progress.keptFrom(time) - windowMs
    let runs = this.#runs(bucket)
    if (runs) this.#drop(runs, notNeeded)
    const isNeeded = time - newest < windowMs
    if (!isNeeded && newest <= notNeeded) return
    if (!this.#hasPlace(runs, isNeeded)) return
    runs ??= this.begin(bucket, new Runs(time))
    runs.add(runs.length, newest, this.counts[bucket]!, windowMs)
    this.room.rows++
  }

  #drop(runs: Runs, notNeeded: number): void {
    let count = 0
    while (count < runs.from && runs.get(count, RUN_TIME) <= notNeeded) count++
    if (count === 0) return
    runs.removeFirst(count)
    runs.from -= count
    this.room.rows -= count
  }

  /** Whether a run may be kept; always true if the window needs it. */
  #hasPlace(runs: Runs | undefined, isNeeded: boolean): boolean {
    const spare = runs ? runs.from : 0
    if (isNeeded && spare === 0) return true
    const rows = runs ? runs.length : 0
    const hasPlace = this.makeRoom(runs, spare)
    if (runs && runs.length < rows) runs.from--
    return hasPlace
  }

  /** Takes an event from before the newest one that passed. */
  #takeEarlier(bucket: number, time: number): TakenInTime {
    const newest = this.times[bucket]!
    if (time < this.progress.lateBefore(newest)) return LATE
    const runs = this.#runs(bucket) ?? this.begin(bucket, new Runs(newest))
    if (this.#isFull(runs, bucket, time)) return DISCARD
    this.#countEarlier(runs, time)
    return PASS
  }

  /** Whether a full span contains `time`. Checks each span that begins with a run or with `time`. */
  #isFull(runs: Runs, bucket: number, time: number): boolean {
    const { windowMs, limit } = this
    const rows = runs.length + 1
    let first = runs.upTo(time - windowMs)
    // Sums and differences of times are rounded; the difference decides.
    while (first < rows && time - this.#timeOf(runs, bucket, first) >= windowMs) first++
    while (first > 0 && time - this.#timeOf(runs, bucket, first - 1) < windowMs) first--
    let sum = 0
    for (let next = first; ; first++) {
      const start = first < rows ? Math.min(this.#timeOf(runs, bucket, first), time) : time
      for (; next < rows && this.#timeOf(runs, bucket, next) - start < windowMs; next++) {
        sum += next < runs.length ? runs.get(next, RUN_COUNT) : this.counts[bucket]!
      }
      if (sum >= limit) return true
      if (start === time) return false
      sum -= runs.get(first, RUN_COUNT)
    }
  }

  /** The time of a run; the newest one follows those that are kept. */
  #timeOf(runs: Runs, bucket: number, row: number): number {
    return row < runs.length ? runs.get(row, RUN_TIME) : this.times[bucket]!
  }

  #countEarlier(runs: Runs, time: number): void {
    const same = runs.upTo(time) - 1
    if (same >= 0 && runs.get(same, RUN_TIME) === time) {
      runs.set(same, RUN_COUNT, runs.get(same, RUN_COUNT) + 1)
      if (same >= runs.from) runs.within++
      return
    }
    if (!this.#hasPlace(runs, runs.at - time < this.windowMs)) return
    runs.add(runs.upTo(time), time, 1, this.windowMs)
    this.room.rows++
  }
}
