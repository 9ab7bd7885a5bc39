import { EventWindows, LATE, type TakenInTime } from './event-windows.js'
import { Kept } from './kept.js'
import { DISCARD, PASS } from './keyed-limiter.js'

/** Columns of what is kept: a time, and how many events of it passed. */
const TIME = 0
const COUNT = 1
const WIDTH = 2

/** What passed in one bucket before its newest run. */
class Runs extends Kept {
  /** The window that ends at this time begins with row `from`; so many events are in it. */
  at: number
  from = 0
  within = 0

  constructor(at: number) {
    super(WIDTH)
    this.at = at
  }

  /** Moves the window on, to the one that ends at `time`. */
  advance(time: number, windowMs: number): void {
    // An event from before one that was discarded finds the window as that one did: full.
    if (time <= this.at) return
    this.at = time
    while (this.from < this.length && time - this.get(this.from, TIME) >= windowMs) {
      this.within -= this.get(this.from++, COUNT)
    }
  }

  /** `count` events of `time`, of which there is no run yet. */
  add(row: number, time: number, count: number, windowMs: number): void {
    this.insert(row)
    this.set(row, TIME, time)
    this.set(row, COUNT, count)
    if (this.at - time < windowMs) this.within += count
    else this.from++
  }
}

/**
 * sliding: an event passes while no span of a window's length that contains it has `limit` events of its bucket that
 * passed. For one that comes in order that is the window that ends with it; for an earlier one also those after it, so
 * that whatever the order, no more than `limit` pass in any such span.
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

  /** Before a newer run takes its place: keeps the newest one, and drops what no event may need that is not late. */
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
    while (count < runs.from && runs.get(count, TIME) <= notNeeded) count++
    if (count === 0) return
    runs.removeFirst(count)
    runs.from -= count
    this.room.rows -= count
  }

  /** Whether a run may be kept; always where the window needs it. */
  #hasPlace(runs: Runs | undefined, isNeeded: boolean): boolean {
    const spare = runs ? runs.from : 0
    if (isNeeded && spare === 0) return true
    const rows = runs ? runs.length : 0
    const hasPlace = this.makeRoom(runs, spare)
    if (runs && runs.length < rows) runs.from--
    return hasPlace
  }

  /** An event from before the newest one that passed. */
  #takeEarlier(bucket: number, time: number): TakenInTime {
    const newest = this.times[bucket]!
    if (time < this.progress.lateBefore(newest)) return LATE
    const runs = this.#runs(bucket) ?? this.begin(bucket, new Runs(newest))
    if (this.#isFull(runs, bucket, time)) return DISCARD
    this.#countEarlier(runs, time)
    return PASS
  }

  /** Whether a span of a window's length that contains `time` is full: each one that begins with a run, or with it. */
  #isFull(runs: Runs, bucket: number, time: number): boolean {
    const { windowMs, limit } = this
    const rows = runs.length + 1
    let first = runs.upTo(time - windowMs)
    // Sums and differences of times are rounded: the one that counts is the difference.
    while (first < rows && time - this.#timeOf(runs, bucket, first) >= windowMs) first++
    while (first > 0 && time - this.#timeOf(runs, bucket, first - 1) < windowMs) first--
    let sum = 0
    for (let next = first; ; first++) {
      const start = first < rows ? Math.min(this.#timeOf(runs, bucket, first), time) : time
      for (; next < rows && this.#timeOf(runs, bucket, next) - start < windowMs; next++) {
        sum += next < runs.length ? runs.get(next, COUNT) : this.counts[bucket]!
      }
      if (sum >= limit) return true
      if (start === time) return false
      sum -= runs.get(first, COUNT)
    }
  }

  /** The time of a run; the newest one comes behind those that are kept. */
  #timeOf(runs: Runs, bucket: number, row: number): number {
    return row < runs.length ? runs.get(row, TIME) : this.times[bucket]!
  }

  #countEarlier(runs: Runs, time: number): void {
    const same = runs.upTo(time) - 1
    if (same >= 0 && runs.get(same, TIME) === time) {
      runs.set(same, COUNT, runs.get(same, COUNT) + 1)
      if (same >= runs.from) runs.within++
      return
    }
    if (!this.#hasPlace(runs, runs.at - time < this.windowMs)) return
    runs.add(runs.upTo(time), time, 1, this.windowMs)
    this.room.rows++
  }
}
