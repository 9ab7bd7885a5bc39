import { resized } from '../../../lib/columns.js'
import { DISCARD, LATE, PASS, type WindowDecision } from '../decisions.js'
import type { Level, Limit } from '../limit.js'
import type { StateReader, StateWriter } from '../persist/state-bytes.js'
import { GcraRate, GcraTime } from '../windows/gcra.js'
import { EarlierRows } from './earlier-rows.js'
import { LimitEventWindows } from './earlier-windows.js'
import type { Shared } from './timing.js'

/**
 * Columns of a run: its time, the TAT after the run (two columns, see GcraWindows), the sum of the costs that passed at
 * this time, and the last of these costs.
 */
const TIME = 0
const TAT_MS = 1
const TAT_REST = 2
const SUM = 3
const LAST = 4
const WIDTH = 5
/** Number of columns of the newest run that are not in `times` and `counts`. */
const MORE = 3
/** `#delayedBy` returns this for an event that does not fit. */
const REFUSES = -1

/**
 * gcra, for events in any order. An event passes only if it and all events passed so far would also pass in the order
 * of their times. So no order of arrival lets more events pass than the limit allows.
 */
export class GcraEventWindows extends LimitEventWindows {
  readonly #rate: GcraRate
  /** The TAT that `#delay` updates while it goes through the runs after an event. */
  readonly #tat: GcraTime
  readonly #latest: GcraTime
  /** For each bucket: the MORE columns of its newest run. */
  #more = new Float64Array(8 * MORE)

  constructor(limit: Limit, shared: Shared) {
    const rate = new GcraRate(limit)
    super(
      limit,
      Math.ceil(rate.tolerance.value + new GcraTime(rate).add(1).value),
      shared,
      new EarlierRows(shared.room, WIDTH),
    )
    this.#rate = rate
    this.#tat = new GcraTime(rate)
    this.#latest = new GcraTime(rate)
  }

  /** The bucket is in use up to its TAT. */
  override latest(bucket: number): number {
    const newest = this.times[bucket]!
    if (newest === Number.NEGATIVE_INFINITY) return newest
    return Math.max(newest, this.#newest(bucket, TAT_MS) + 1 - this.spanMs)
  }

  override take(bucket: number, time: number, cost: number): WindowDecision {
    if (this.#isLate(bucket, time)) return LATE
    const row = this.#rowAfter(bucket, this.kept.of(bucket), time)
    const delayed = this.#delayedBy(row, bucket, time, cost)
    if (delayed === REFUSES) return DISCARD
    this.#chargeAt(row, bucket, time, cost, delayed > 0)
    return PASS
  }

  fits(bucket: number, time: number, cost: number): WindowDecision {
    if (this.#isLate(bucket, time)) return LATE
    const row = this.#rowAfter(bucket, this.kept.of(bucket), time)
    return this.#delayedBy(row, bucket, time, cost) === REFUSES ? DISCARD : PASS
  }

  charge(bucket: number, time: number, cost: number): void {
    if (this.#isLate(bucket, time)) return
    this.#chargeAt(this.#rowAfter(bucket, this.kept.of(bucket), time), bucket, time, cost, true)
  }

  #isLate(bucket: number, time: number): boolean {
    const newest = this.times[bucket]!
    return time < newest && time < this.progress.lateBefore(newest)
  }

  /** Returns how many later runs an event would delay, or REFUSES if the event does not fit. */
  #delayedBy(row: number, bucket: number, time: number, cost: number): number {
    if (this.times[bucket] === Number.NEGATIVE_INFINITY) return 0
    const older = this.kept.of(bucket)
    const tat = this.#tatBefore(bucket, older, row, time)
    return this.#isWithin(tat, time) ? this.#delay(bucket, older, row, tat.add(cost), false) : REFUSES
  }

  #chargeAt(row: number, bucket: number, time: number, cost: number, mayDelay: boolean): void {
    const newest = this.times[bucket]!
    const older = this.kept.of(bucket)
    const tat = this.#tatBefore(bucket, older, row, time).add(cost)
    const { ms, rest } = tat
    if (mayDelay && time < newest) this.#delay(bucket, older, row, tat, true)
    if (row > 0 && this.#get(bucket, older, row - 1, TIME) === time) {
      this.#addSum(bucket, older, row - 1, cost)
      this.#setRow(bucket, older, row - 1, ms, rest, cost)
    } else if (time < newest) this.#insert(bucket, row, time, ms, rest, cost)
    else {
      if (newest !== Number.NEGATIVE_INFINITY) this.#keepNewest(bucket, time)
      this.times[bucket] = time
      this.counts[bucket] = cost
      this.#setNewest(bucket, ms, rest, cost)
    }
  }

  /** The number of runs at or before `time`. The newest run comes after the kept runs. */
  #rowAfter(bucket: number, older: EarlierRows, time: number): number {
    const newest = this.times[bucket]!
    if (newest === Number.NEGATIVE_INFINITY) return 0
    return time >= newest ? older.length + 1 : older.upTo(time)
  }

  #get(bucket: number, older: EarlierRows, row: number, column: number): number {
    return row < older.length ? older.get(row, column) : this.#newest(bucket, column)
  }

  #newest(bucket: number, column: number): number {
    switch (column) {
      case TIME:
        return this.times[bucket]!
      case SUM:
        return this.counts[bucket]!
      default:
        return this.#more[bucket * MORE + (column === LAST ? 2 : column - TAT_MS)]!
    }
  }

  #setNewest(bucket: number, ms: number, rest: number, last: number): void {
    const at = bucket * MORE
    this.#more[at] = ms
    this.#more[at + 1] = rest
    this.#more[at + 2] = last
  }

  #addSum(bucket: number, older: EarlierRows, row: number, cost: number): void {
    if (row < older.length) older.set(row, SUM, older.get(row, SUM) + cost)
    else this.counts[bucket]! += cost
  }

  #setRow(bucket: number, older: EarlierRows, row: number, ms: number, rest: number, last: number): void {
    if (row >= older.length) {
      this.#setNewest(bucket, ms, rest, last)
      return
    }
    older.set(row, TAT_MS, ms)
    older.set(row, TAT_REST, rest)
    older.set(row, LAST, last)
  }

  /** The later of `time` and the TAT of the run before `row`. */
  #tatBefore(bucket: number, older: EarlierRows, row: number, time: number): GcraTime {
    const tat = this.#tat.setTime(time)
    if (row === 0) return tat
    const ms = this.#get(bucket, older, row - 1, TAT_MS)
    const rest = this.#get(bucket, older, row - 1, TAT_REST)
    return tat.isBefore(ms, rest) ? tat.set(ms, rest) : tat
  }

  /** Whether an event at `time` passes if `tat` is the TAT before this event. */
  #isWithin(tat: GcraTime, time: number): boolean {
    const { tolerance } = this.#rate
    return !this.#latest.setTime(time).shift(tolerance.ms, tolerance.rest).isBefore(tat.ms, tat.rest)
  }

  /**
   * Delays the runs from `row` on, up to the first run that is not delayed. `tat`: the TAT after an event that comes
   * before `row`. Returns the number of delayed runs, or REFUSES if a delayed run would not have passed. If `writes`,
   * stores the new TATs and never returns REFUSES.
   */
  #delay(bucket: number, older: EarlierRows, row: number, tat: GcraTime, writes: boolean): number {
    const { array, rows, length } = older
    const more = this.#more
    let next = row
    for (; next <= length; next++) {
      const isKept = next < length
      const at = isKept ? rows + next * WIDTH : bucket * MORE
      const time = isKept ? array[at]! : this.times[bucket]!
      if (!this.#latest.setTime(time).isBefore(tat.ms, tat.rest)) break
      const last = isKept ? array[at + LAST]! : more[at + 2]!
      const sum = isKept ? array[at + SUM]! : this.counts[bucket]!
      if (sum !== last) tat.add(sum - last)
      if (!writes && !this.#isWithin(tat, time)) return REFUSES
      tat.add(last)
      const ms = isKept ? array[at + TAT_MS]! : more[at]!
      const rest = isKept ? array[at + TAT_REST]! : more[at + 1]!
      // If a run was forgotten, the stored TAT of a later run may be larger than the TAT computed here.
      if (tat.isBefore(ms, rest)) break
      if (writes) this.#setRow(bucket, older, next, tat.ms, tat.rest, last)
    }
    return next - row
  }

  /**
   * Adds the newest run to the kept runs before a newer run replaces it. Drops runs that only late events could need.
   */
  #keepNewest(bucket: number, time: number): void {
    const from = this.progress.keptFrom(time)
    const older = this.kept.of(bucket)
    if (older.length > 0) this.#drop(bucket, older, from)
    if (this.#newest(bucket, TAT_MS) < from - 1) return
    if (!this.makeRoom(older, older.length, 0)) return
    const row = older.length
    older.insert(row)
    for (let column = 0; column < WIDTH; column++) older.set(row, column, this.#newest(bucket, column))
  }

  /**
   * Drops the runs that are not needed for events at or after `from`. A run is not needed if the next run is at or
   * before `from`, or if the TAT of the run is before `from`.
   */
  #drop(bucket: number, older: EarlierRows, from: number): void {
    let count = 0
    while (
      count < older.length &&
      (this.#get(bucket, older, count + 1, TIME) <= from || older.get(count, TAT_MS) < from - 1)
    )
      count++
    if (count > 0) older.removeFirst(count)
  }

  #insert(bucket: number, row: number, time: number, ms: number, rest: number, cost: number): void {
    const older = this.kept.of(bucket)
    const rows = older.length
    if (!this.makeRoom(older, rows, 0)) return
    const at = older.length < rows ? older.upTo(time) : row
    older.insert(at)
    older.set(at, TIME, time)
    older.set(at, SUM, cost)
    this.#setRow(bucket, older, at, ms, rest, cost)
  }

  level(bucket: number, time: number): Level {
    if (this.times[bucket] === Number.NEGATIVE_INFINITY) return this.levelOf(bucket, 0, time, time)
    const older = this.kept.of(bucket)
    const until = this.#tatBefore(bucket, older, this.#rowAfter(bucket, older, time), time).value
    return until <= time
      ? this.levelOf(bucket, 0, time, time)
      : this.levelOf(bucket, this.#rate.costsIn(until - time), time, until)
  }

  override write(bucket: number, to: StateWriter): void {
    super.write(bucket, to)
    for (let column = 0; column < WIDTH; column++) to.number(this.#newest(bucket, column))
  }

  override read(bucket: number, from: StateReader): void {
    super.read(bucket, from)
    this.times[bucket] = from.number()
    const [ms, rest] = [from.number(), from.number()]
    this.counts[bucket] = from.number()
    this.#setNewest(bucket, ms, rest, from.number())
  }

  override adopt(bucket: number, from: GcraEventWindows, fromBucket: number): void {
    super.adopt(bucket, from, fromBucket)
    const start = fromBucket * MORE
    this.#more.set(from.#more.subarray(start, start + MORE), bucket * MORE)
  }

  override reserve(capacity: number): void {
    super.reserve(capacity)
    if (this.#more.length === this.counts.length * MORE) return
    this.#more = resized(this.#more, this.counts.length * MORE)
  }
}
