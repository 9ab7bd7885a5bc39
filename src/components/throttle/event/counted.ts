import { resized } from '../../../lib/columns.js'
import { DISCARD, LATE, PASS, type WindowDecision } from '../decisions.js'
import type { Level, Limit } from '../limit.js'
import type { StateReader, StateWriter } from '../persist/state-bytes.js'
import type { Periods } from '../windows/periods.js'
import { LimitWindows } from '../windows.js'
import { type EarlierMemory, EarlierRows } from './earlier-rows.js'
import type { EventProgress } from './progress.js'

/** Columns of a kept window: its start, the time of the latest event that it counted, and its count. */
const START = 0
const LATEST = 1
const COUNT = 2
const WIDTH = 3
/** Maximum number of kept windows per bucket. */
const MOST_KEPT = 4096

/**
 * Which window counts an event: the newest window, a new later window, a kept window, a new earlier window, or a window
 * whose start moves to the event.
 */
type Place =
  | typeof IN_NEWEST
  | typeof AFTER
  | typeof IN_KEPT
  | typeof OPENS
  | typeof MOVES_KEPT
  | typeof MOVES_NEWEST
  | typeof NOWHERE
const IN_NEWEST = 0
const AFTER = 1
const IN_KEPT = 2
const OPENS = 3
const MOVES_KEPT = 4
const MOVES_NEWEST = 5
/** The event is late. */
const NOWHERE = 6

/**
 * fixed: a window opens at the time t of the first event that it counts. It covers [t, t + window), but ends sooner if
 * the next window begins sooner. An event before t may be outside of all kept windows. Such an event becomes the start
 * of the next window if the last event of that window is less than a window length later. Otherwise, it opens its own
 * window. So windows do not overlap, and the last event of a window is at least a window length after the first event
 * of the window before it. With periods (aligned windows, quotas), each window is a period.
 *
 * A bucket keeps an earlier window until every further event in this window would be late. If no room is left, one of
 * the earlier windows is dropped. If another event of the dropped window arrives, this event opens a new, empty window.
 * So dropping a window never causes an event to be discarded.
 */
export class CountedEventWindows extends LimitWindows {
  readonly #progress: EventProgress
  readonly #room: EarlierMemory
  /** The windows before the newest one. */
  readonly #kept: EarlierRows
  readonly #periods: Periods | undefined
  /** The length of every window; 0: each window is as long as its period. */
  readonly #lengthMs: number
  /** For each bucket: the time of the latest event that the newest window counted. */
  #latest = new Float64Array(8)
  /** The row of the kept window that `#placeOf` found. */
  #row = 0

  constructor(
    limit: Limit,
    periods: Periods | undefined,
    { progress, room }: { readonly progress: EventProgress; readonly room: EarlierMemory },
  ) {
    super(limit, periods ? periods.longestMs : limit.windowMs)
    this.#progress = progress
    this.#room = room
    this.#kept = new EarlierRows(room, WIDTH)
    this.#periods = periods
    this.#lengthMs = limit.mode === 'quota' ? 0 : limit.windowMs
  }

  override latest(bucket: number): number {
    const start = this.times[bucket]!
    if (this.#lengthMs > 0 || start === Number.NEGATIVE_INFINITY) return start
    return this.#periods!.endOf(start) - this.spanMs
  }

  /** Most events are in the newest window, so the decision on these events takes only one step. */
  override take(bucket: number, time: number, cost: number): WindowDecision {
    const start = this.times[bucket]!
    if (time < start || !this.#contains(start, time))
      return this.#takeAt(this.#placeOf(bucket, time), bucket, time, cost)
    const used = this.counts[bucket]! + cost
    if (used > (this.ownLimitUnits === undefined ? this.limitUnits : this.ownLimitUnits[bucket]!)) return DISCARD
    this.counts[bucket] = used
    if (time > this.#latest[bucket]!) this.#latest[bucket] = time
    return PASS
  }

  #takeAt(place: Place, bucket: number, time: number, cost: number): WindowDecision {
    const taken = this.#fitsAt(place, bucket, cost)
    if (taken === PASS) this.#chargeAt(place, bucket, time, cost)
    return taken
  }

  fits(bucket: number, time: number, cost: number): WindowDecision {
    return this.#fitsAt(this.#placeOf(bucket, time), bucket, cost)
  }

  #fitsAt(place: Place, bucket: number, cost: number): WindowDecision {
    if (place === NOWHERE) return LATE
    return this.#used(bucket, place) + cost <= this.limitUnitsOf(bucket) ? PASS : DISCARD
  }

  #used(bucket: number, place: Place): number {
    if (place === IN_NEWEST || place === MOVES_NEWEST) return this.counts[bucket]!
    return place === IN_KEPT || place === MOVES_KEPT ? this.#kept.of(bucket).get(this.#row, COUNT) : 0
  }

  charge(bucket: number, time: number, cost: number): void {
    this.#chargeAt(this.#placeOf(bucket, time), bucket, time, cost)
  }

  #chargeAt(place: Place, bucket: number, time: number, cost: number): void {
    switch (place) {
      case IN_NEWEST:
        this.counts[bucket]! += cost
        if (time > this.#latest[bucket]!) this.#latest[bucket] = time
        break
      case AFTER:
        if (this.times[bucket]! !== Number.NEGATIVE_INFINITY) this.#keepNewest(bucket, time)
        this.times[bucket] = this.#startOf(time)
        this.#latest[bucket] = time
        this.counts[bucket] = cost
        break
      case MOVES_NEWEST:
        this.counts[bucket]! += cost
        this.times[bucket] = time
        break
      case IN_KEPT:
      case MOVES_KEPT: {
        const older = this.#kept.of(bucket)
        older.set(this.#row, COUNT, older.get(this.#row, COUNT) + cost)
        if (time > older.get(this.#row, LATEST)) older.set(this.#row, LATEST, time)
        if (place === MOVES_KEPT) older.set(this.#row, START, time)
        break
      }
      case OPENS:
        this.#open(bucket, this.#startOf(time), time, cost)
    }
  }

  #startOf(time: number): number {
    return this.#periods ? this.#periods.startOf(time) : time
  }

  /** Whether the window that begins at `start` contains `time`. Call only if `time` is not before `start`. */
  #contains(start: number, time: number): boolean {
    return this.#lengthMs > 0 ? time - start < this.#lengthMs : this.#periods!.startOf(time) <= start
  }

  #placeOf(bucket: number, time: number): Place {
    const start = this.times[bucket]!
    if (time < start) return this.#earlierPlace(bucket, time)
    return this.#contains(start, time) ? IN_NEWEST : AFTER
  }

  #earlierPlace(bucket: number, time: number): Place {
    const windowMs = this.spanMs
    const lateBefore = this.#progress.lateBefore(this.#latest[bucket]!)
    const older = this.#kept.of(bucket)
    const next = older.upTo(time)
    if (next > 0) {
      const start = older.get(next - 1, START)
      const end = this.#periods ? this.#periods.endOf(start) : start + windowMs
      if (this.#contains(start, time) && end >= lateBefore) {
        this.#row = next - 1
        return IN_KEPT
      }
    }
    if (this.#periods) return this.#periods.endOf(time) < lateBefore ? NOWHERE : OPENS
    if (time < lateBefore) return NOWHERE
    if (next < older.length) {
      this.#row = next
      return older.get(next, LATEST) - time >= windowMs ? OPENS : MOVES_KEPT
    }
    return this.#latest[bucket]! - time >= windowMs ? OPENS : MOVES_NEWEST
  }

  /**
   * Adds the newest window to the kept windows, because a newer window is about to replace it. Drops kept windows that
   * ended long before `time`.
   */
  #keepNewest(bucket: number, time: number): void {
    const from = this.#progress.keptFrom(time) - this.spanMs
    const older = this.#kept.of(bucket)
    if (older.length > 0) this.#drop(older, from)
    if (this.times[bucket]! < from || !this.#makeRoom(older)) return
    this.#insert(older, older.length, this.times[bucket]!, this.#latest[bucket]!, this.counts[bucket]!)
  }

  /** If no room is left for one more row, drops one of the bucket's rows. Returns false if the bucket has no rows. */
  #makeRoom(older: EarlierRows): boolean {
    const { length } = older
    if (length < MOST_KEPT && older.hasRoom) return true
    this.#room.forgotten++
    if (length > 0) older.remove(length >> 1)
    return length > 0
  }

  #drop(older: EarlierRows, from: number): void {
    let count = 0
    while (count < older.length && older.get(count, START) < from) count++
    if (count > 0) older.removeFirst(count)
  }

  #insert(older: EarlierRows, row: number, start: number, latest: number, count: number): void {
    older.insert(row)
    older.set(row, START, start)
    older.set(row, LATEST, latest)
    older.set(row, COUNT, count)
  }

  #open(bucket: number, start: number, time: number, cost: number): void {
    const older = this.#kept.of(bucket)
    if (!this.#makeRoom(older)) return
    this.#insert(older, older.upTo(time), start, time, cost)
  }

  level(bucket: number, time: number): Level {
    const place = this.#placeOf(bucket, time)
    if (place === AFTER || place === OPENS || place === NOWHERE) return this.levelOf(bucket, 0, time, time)
    const isNewest = place === IN_NEWEST || place === MOVES_NEWEST
    const start = isNewest ? this.times[bucket]! : this.#kept.of(bucket).get(this.#row, START)
    const until = this.#periods ? this.#periods.endOf(start) : start + this.spanMs
    return this.levelOf(bucket, this.#used(bucket, place), start, until)
  }

  override write(bucket: number, to: StateWriter): void {
    super.write(bucket, to)
    this.#kept.of(bucket).write(to)
    to.number(this.#latest[bucket]!)
  }

  override read(bucket: number, from: StateReader): void {
    super.read(bucket, from)
    this.#kept.clear(bucket)
    this.#kept.read(from)
    this.#latest[bucket] = from.number()
  }

  override adopt(bucket: number, from: CountedEventWindows, fromBucket: number): void {
    super.adopt(bucket, from, fromBucket)
    this.#kept.adopt(bucket, from.#kept, fromBucket)
    this.#latest[bucket] = from.#latest[fromBucket]!
  }

  override reserve(capacity: number): void {
    super.reserve(capacity)
    this.#kept.reserve(capacity)
    if (this.counts.length === this.#latest.length) return
    this.#latest = resized(this.#latest, this.counts.length)
  }

  override release(): void {
    this.#kept.release()
  }
}
