import { DISCARD, LATE, PASS, type WindowDecision } from '../decisions.js'
import type { Level, Limit } from '../limit.js'
import { type EarlierMemory, EarlierRows } from './earlier-rows.js'
import { LimitEventWindows } from './earlier-windows.js'
import type { Shared } from './timing.js'

/** Columns of a run: a time, and the amount that passed at this time. */
const RUN_TIME = 0
const RUN_COUNT = 1
const RUN_WIDTH = 2

/** Indices of the numbers that a list holds besides its runs. */
const AT = 0
const FROM = 1
const WITHIN = 2
const STATE = 3

/** The runs of a bucket before its newest one. */
class Runs extends EarlierRows {
  /** `at`: the end of the current window; NaN if unknown. `from`: its first row. `within`: the amount in its rows. */
  at = Number.NaN
  from = 0
  within = 0

  constructor(room: EarlierMemory) {
    super(room, RUN_WIDTH, STATE)
  }

  /** Loads the runs of a bucket. `newest`: the time of its newest run. */
  load(bucket: number, newest: number, windowMs: number): this {
    this.of(bucket)
    if (Number.isNaN(this.at)) this.#find(newest, windowMs)
    return this
  }

  protected override loaded(): void {
    this.at = this.hasState ? this.state(AT) : Number.NaN
    if (!this.hasState) return
    this.from = this.state(FROM)
    this.within = this.state(WITHIN)
  }

  #find(at: number, windowMs: number): void {
    this.at = at
    this.from = 0
    this.within = 0
    for (let row = 0; row < this.length; row++) {
      if (at - this.get(row, RUN_TIME) < windowMs) this.within += this.get(row, RUN_COUNT)
      else this.from++
    }
  }

  protected override save(): void {
    super.save()
    this.setState(AT, this.at)
    this.setState(FROM, this.from)
    this.setState(WITHIN, this.within)
  }

  /** Moves the window until it ends at `time`. */
  advance(time: number, windowMs: number): void {
    // The window moves back only if it was moved forward for an event that did not pass. So the runs that the window
    // needs now are still kept.
    while (time < this.at && this.from > 0 && time - this.get(this.from - 1, RUN_TIME) < windowMs) {
      this.within += this.get(--this.from, RUN_COUNT)
    }
    this.at = time
    while (this.from < this.length && time - this.get(this.from, RUN_TIME) >= windowMs) {
      this.within -= this.get(this.from++, RUN_COUNT)
    }
  }

  /** The amount that passed after `time - windowMs`, but before the current window began. */
  before(time: number, windowMs: number): number {
    const { array, rows } = this
    let sum = 0
    for (let at = rows + (this.from - 1) * RUN_WIDTH; at >= rows && time - array[at]! < windowMs; at -= RUN_WIDTH) {
      sum += array[at + RUN_COUNT]!
    }
    return sum
  }

  /**
   * The amount in the fullest span that contains `time`, or in the first span with more than `enough`. `newest` and
   * `count`: time and amount of the newest run, which comes after all kept runs. Checks each span that begins with a
   * run or with `time`.
   */
  mostWith(time: number, newest: number, count: number, windowMs: number, enough: number): number {
    const { array, rows: begin } = this
    const end = begin + this.length * RUN_WIDTH
    let first = begin + this.upTo(time - windowMs) * RUN_WIDTH
    // `time - windowMs` may be rounded, so the differences of times decide.
    while (first < end && time - array[first]! >= windowMs) first += RUN_WIDTH
    while (first > begin && time - array[first - RUN_WIDTH]! < windowMs) first -= RUN_WIDTH
    let most = 0
    let sum = 0
    let hasNewest = false
    for (let next = first; ; first += RUN_WIDTH) {
      const start = first < end && array[first]! < time ? array[first]! : time
      for (; next < end && array[next]! - start < windowMs; next += RUN_WIDTH) sum += array[next + RUN_COUNT]!
      if (next === end && !hasNewest && newest - start < windowMs) {
        sum += count
        hasNewest = true
      }
      if (sum > most) most = sum
      if (start === time || most > enough) return most
      sum -= array[first + RUN_COUNT]!
    }
  }

  /** Adds a run for `time`, which does not have one yet. */
  add(row: number, time: number, count: number, windowMs: number): void {
    if (this.at - time < windowMs) this.within += count
    else this.from++
    this.insert(row)
    this.set(row, RUN_TIME, time)
    this.set(row, RUN_COUNT, count)
  }

  addTo(row: number, count: number): void {
    this.set(row, RUN_COUNT, this.get(row, RUN_COUNT) + count)
    if (row >= this.from) this.within += count
  }

  /** The run must be before the window. */
  override remove(row: number): void {
    this.from--
    super.remove(row)
  }

  /** The runs must be before the window. */
  override removeFirst(count: number): void {
    this.from -= count
    super.removeFirst(count)
  }
}

/**
 * Limits in `sliding` mode. A span is any period that is as long as the window. An event passes if every span that
 * contains the event stays within the limit. If the event arrives in order, only the span that ends with the event is
 * checked. If the event is older than the newest event, later spans are checked, too. So every span stays within the
 * limit in any order of arrival.
 */
export class SlidingEventWindows extends LimitEventWindows<Runs> {
  constructor(limit: Limit, shared: Shared) {
    super(limit, limit.windowMs, shared, new Runs(shared.room))
  }

  #runs(bucket: number): Runs {
    return this.kept.load(bucket, this.times[bucket]!, this.spanMs)
  }

  fits(bucket: number, time: number, cost: number): WindowDecision {
    const newest = this.times[bucket]!
    if (time >= newest) return this.#usedAt(bucket, time) + cost <= this.limitUnitsOf(bucket) ? PASS : DISCARD
    if (time < this.progress.lateBefore(newest)) return LATE
    return this.#isFull(bucket, time, cost) ? DISCARD : PASS
  }

  /** The amount in the window that ends at `time`. `time` must not be before the newest run. */
  #usedAt(bucket: number, time: number): number {
    if (time - this.times[bucket]! >= this.spanMs) return 0
    const runs = this.#runs(bucket)
    runs.advance(time, this.spanMs)
    return this.counts[bucket]! + runs.within
  }

  charge(bucket: number, time: number, cost: number): void {
    const newest = this.times[bucket]!
    if (time < newest) {
      if (time >= this.progress.lateBefore(newest)) this.#countEarlier(bucket, time, cost)
      return
    }
    if (time === newest) {
      this.counts[bucket]! += cost
      return
    }
    if (newest !== Number.NEGATIVE_INFINITY) this.#keepNewest(bucket, time)
    this.times[bucket] = time
    this.counts[bucket] = cost
  }

  /**
   * Adds the newest run to the kept runs before a newer run replaces it. Drops runs that only late events could need.
   */
  #keepNewest(bucket: number, time: number): void {
    const windowMs = this.spanMs
    const newest = this.times[bucket]!
    const notNeeded = this.progress.keptFrom(time) - windowMs
    const runs = this.#runs(bucket)
    runs.advance(time, windowMs)
    this.#drop(runs, notNeeded)
    const isNeeded = time - newest < windowMs
    if (!isNeeded && newest <= notNeeded) return
    if (this.#hasPlace(runs, isNeeded)) runs.add(runs.length, newest, this.counts[bucket]!, windowMs)
  }

  #drop(runs: Runs, notNeeded: number): void {
    let count = 0
    while (count < runs.from && runs.get(count, RUN_TIME) <= notNeeded) count++
    if (count > 0) runs.removeFirst(count)
  }

  /** Whether there is room to keep a run. Always true if the window needs the run. */
  #hasPlace(runs: Runs, isNeeded: boolean): boolean {
    return (isNeeded && runs.from === 0) || this.makeRoom(runs, runs.from)
  }

  /** Whether `cost` would exceed the limit in any span that contains `time`. `time` is before the newest run. */
  #isFull(bucket: number, time: number, cost: number): boolean {
    const windowMs = this.spanMs
    const most = this.limitUnitsOf(bucket)
    const runs = this.#runs(bucket)
    const [newest, count] = [this.times[bucket]!, this.counts[bucket]!]
    // Usually, it is enough to sum the window that ends with the last event, or all runs since the first span began.
    const used = runs.within + count
    if (runs.at - time < windowMs && used + cost > most) return true
    if (runs.before(time, windowMs) + used + cost <= most) return false
    return runs.mostWith(time, newest, count, windowMs, most - cost) > most - cost
  }

  #countEarlier(bucket: number, time: number, cost: number): void {
    const runs = this.#runs(bucket)
    const same = runs.upTo(time) - 1
    if (same >= 0 && runs.get(same, RUN_TIME) === time) runs.addTo(same, cost)
    else if (this.#hasPlace(runs, runs.at - time < this.spanMs)) {
      runs.add(runs.upTo(time), time, cost, this.spanMs)
    }
  }

  level(bucket: number, time: number): Level {
    const newest = this.times[bucket]!
    if (time - newest >= this.spanMs) return this.levelOf(bucket, 0, time, time)
    const at = Math.max(time, newest)
    const used = this.#usedAt(bucket, at)
    const runs = this.#runs(bucket)
    const since = runs.from < runs.length ? runs.get(runs.from, RUN_TIME) : newest
    return this.levelOf(bucket, used, since, newest + this.spanMs)
  }
}
