import { BoundedMap } from '../lib/bounded-map.js'
import { type Level, type Limit, scaleOf } from './limit.js'
import { type DISCARD, PASS } from './limiter.js'
import type { StateReader, StateWriter } from './state-bytes.js'
import { BucketColumns } from './windows.js'

/** Maximum length of a pause that counts as elapsed time, so that an outage does not make origins inactive. */
const LONGEST_PAUSE_MS = 1000
/** An origin without an event for this long is inactive and no longer waited for. */
const ACTIVE_MS = 60_000
/** Maximum number of origins waited for; beyond it the oldest is dropped. Each HTTP request is an origin. */
const MOST_ORIGINS = 10_000
/** Number of origins that may be checked per batch. */
const LOOKED_AT_PER_BATCH = 8

/** The progress of event times in one origin. */
interface Reached {
  readonly origin: object
  newest: number
  /** When its last event arrived, in `#elapsed`. */
  at: number
}

/**
 * Tracks the progress of event times for each origin (a file, a connection) separately, because one may catch up while
 * others are live. An event is late if it is more than the allowed lateness behind both the newest event of its origin
 * and the newest of its bucket. So events that are in order in either are not late.
 */
export class Progress {
  /** The time that every active origin has reached. Decreases when an origin with earlier events appears. */
  oldest = Number.NEGATIVE_INFINITY
  readonly latenessMs: number
  readonly #origins = new BoundedMap<object, Reached>(MOST_ORIGINS)
  #current: Reached = { origin: this, newest: Number.NEGATIVE_INFINITY, at: 0 }
  /** Milliseconds in which events arrived. */
  #elapsed = 0
  #enteredAt = Number.NaN
  #batches = 0

  constructor(latenessMs: number) {
    this.latenessMs = latenessMs
  }

  /** Starts a batch from `origin`; `clock` is monotonic, `arrival` is the wall clock. */
  enter(origin: object, clock: number, arrival: number): void {
    const pause = clock - this.#enteredAt
    if (pause > 0) this.#elapsed += Math.min(pause, LONGEST_PAUSE_MS)
    this.#enteredAt = clock
    if (++this.#batches * LOOKED_AT_PER_BATCH >= this.#origins.size) this.#look()
    if (this.#origins.size === 0) this.oldest = arrival
    this.#current = this.#origins.get(origin) ?? { origin, newest: Number.NEGATIVE_INFINITY, at: 0 }
  }

  #look(): void {
    this.#batches = 0
    let oldest = Number.POSITIVE_INFINITY
    for (const [origin, { newest, at }] of this.#origins) {
      if (this.#elapsed - at >= ACTIVE_MS) this.#origins.delete(origin)
      else if (newest < oldest) oldest = newest
    }
    if (this.#origins.size > 0) this.oldest = oldest
  }

  /** Registers an event time of the current origin. */
  see(time: number): void {
    const current = this.#current
    current.at = this.#elapsed
    if (time <= current.newest) return
    if (current.newest === Number.NEGATIVE_INFINITY) this.#join(current, time)
    current.newest = time
    if (this.#origins.size === 1) this.oldest = time
  }

  #join(reached: Reached, time: number): void {
    this.#origins.set(reached.origin, reached)
    this.oldest = Math.min(this.oldest, time)
  }

  /** How long no event has arrived, in milliseconds. */
  silentMs(clock: number): number {
    return clock - this.#enteredAt
  }

  /** Events of the current origin before this time are late in a bucket whose newest event is at `newest`. */
  lateBefore(newest: number): number {
    return Math.min(newest, this.#current.newest) - this.latenessMs
  }

  /** Events of active origins before this time are late in a bucket whose newest event is at `newest`. */
  keptFrom(newest: number): number {
    return Math.min(newest, this.oldest) - this.latenessMs
  }
}

const START = 0
/** Rows of a new list: V8 keeps so few numbers in its heap, which costs much less than memory of their own. */
const SMALLEST = 2

/** Memory use of all buckets of a throttle, in addition to their newest windows. */
export interface Room {
  /** Rows (windows or runs), and buckets with rows now or earlier. */
  rows: number
  buckets: number
  /** Rows dropped early because there was no room. */
  forgotten: number
}

/** The windows or runs of a bucket before the newest one, by time: rows of numbers, the first of which is the time. */
export class Kept {
  length = 0
  readonly #width: number
  #cells: Float64Array
  /** Index of the first row. */
  #first = 0

  constructor(width: number) {
    this.#width = width
    this.#cells = new Float64Array(SMALLEST * width)
  }

  get #rows(): number {
    return this.#cells.length / this.#width
  }

  get(row: number, column: number): number {
    return this.#cells[(this.#first + row) * this.#width + column]!
  }

  set(row: number, column: number, value: number): void {
    this.#cells[(this.#first + row) * this.#width + column] = value
  }

  /** Number of rows at or before `time`. */
  upTo(time: number): number {
    let [low, high] = [0, this.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.get(middle, START) <= time) low = middle + 1
      else high = middle
    }
    return low
  }

  /** Inserts a row at index `row`; the caller sets its values. */
  insert(row: number): void {
    if (this.#first + this.length === this.#rows) this.#makeRoom()
    const width = this.#width
    const at = (this.#first + row) * width
    if (row < this.length) this.#cells.copyWithin(at + width, at, (this.#first + this.length) * width)
    this.length++
  }

  #makeRoom(): void {
    if (this.#first >= this.#rows / 4) this.#move(this.#cells)
    else this.#move(new Float64Array(this.#cells.length * 2))
  }

  /** Moves the rows to the front of `cells`, which may be the current array. */
  #move(cells: Float64Array): void {
    const from = this.#first * this.#width
    cells.set(this.#cells.subarray(from, from + this.length * this.#width))
    this.#cells = cells
    this.#first = 0
  }

  write(row: number, to: StateWriter): void {
    for (let column = 0; column < this.#width; column++) to.number(this.get(row, column))
  }

  /** Reads a row, after all others. */
  read(row: number, from: StateReader): void {
    this.insert(row)
    for (let column = 0; column < this.#width; column++) this.set(row, column, from.number())
  }

  remove(row: number): void {
    const width = this.#width
    const at = (this.#first + row) * width
    this.#cells.copyWithin(at, at + width, (this.#first + this.length) * width)
    this.length--
  }

  removeFirst(count: number): void {
    this.#first += count
    this.length -= count
    const rows = Math.max(this.length * 2, SMALLEST)
    if (rows * 2 < this.#rows) this.#move(new Float64Array(rows * this.#width))
  }
}

/** The event's window is no longer kept, so the event is not counted. */
export const LATE = 5

export type TakenInTime = typeof PASS | typeof DISCARD | typeof LATE

/** Maximum number of rows per bucket, and of all buckets of a throttle together (about 50 MB). */
const MOST_OF_ONE = 4096
const MOST_OF_ALL = 2_000_000
/** Memory of a bucket with rows, expressed in rows. */
const ROWS_PER_BUCKET = 16

/** What all windows of a throttle share. */
export interface Shared {
  readonly progress: Progress
  readonly room: Room
}

/** Windows in event time, for events in any order. Costs and sizes are those of `Windows`. */
export abstract class EventWindows extends BucketColumns {
  /** The longest that a window may last. */
  abstract readonly longestMs: number

  /** Decides on an event of `bucket` at `time`, and counts it if it passes. Its cost is 1. */
  abstract take(bucket: number, time: number): TakenInTime

  /** Like `take`, for an event of this cost and size. */
  abstract takeCost(bucket: number, time: number, cost: number, bytes: number): TakenInTime

  /** How full the window of `time` is; of several, the one that refuses an event of this cost, or else the fullest. */
  abstract level(bucket: number, time: number, cost: number, bytes: number): Level
}

/**
 * Windows of one limit. A bucket keeps earlier windows as long as events that are not late
 * may fall into them. If there is no room, a window in the middle is dropped, and an event of its time opens another
 * one. So a dropped window never causes an event to be discarded.
 */
export abstract class LimitEventWindows extends EventWindows {
  readonly limit: Limit
  /** The limit, in what the windows count (`scaleOf`). */
  protected readonly most: number
  readonly longestMs: number
  protected readonly progress: Progress
  protected readonly room: Room
  readonly #older: (Kept | undefined)[] = []

  constructor(limit: Limit, longestMs: number, { progress, room }: Shared) {
    super()
    this.limit = limit
    this.most = limit.limit * scaleOf(limit)
    this.longestMs = longestMs
    this.progress = progress
    this.room = room
  }

  take(bucket: number, time: number): TakenInTime {
    return this.takeCost(bucket, time, 1)
  }

  takeCost(bucket: number, time: number, cost: number): TakenInTime {
    const taken = this.fits(bucket, time, cost)
    if (taken === PASS) this.charge(bucket, time, cost)
    return taken
  }

  /** The decision on an event of this cost, without counting it. */
  abstract fits(bucket: number, time: number, cost: number): TakenInTime

  /** Counts an event that passes; not if it is late. */
  abstract charge(bucket: number, time: number, cost: number): void

  protected levelOf(used: number, since: number, until: number): Level {
    return { limit: this.limit, used: used / scaleOf(this.limit), since, until }
  }

  protected older(bucket: number): Kept | undefined {
    return this.#older[bucket]
  }

  /** Adds rows to a bucket that has none. */
  protected begin<K extends Kept>(bucket: number, kept: K): K {
    this.room.buckets++
    this.#put(bucket, kept)
    return kept
  }

  #put(bucket: number, kept: Kept): void {
    // Grow at once: an array with large gaps would become a dictionary.
    if (this.#older.length < this.counts.length) this.#older.length = this.counts.length
    this.#older[bucket] = kept
  }

  /** Whether there is room for one more row, possibly after dropping one of the first `spare` rows: `row`. */
  protected makeRoom(kept: Kept | undefined, spare: number, row = spare >> 1): boolean {
    const { room } = this
    if (spare < MOST_OF_ONE && room.rows + room.buckets * ROWS_PER_BUCKET < MOST_OF_ALL) return true
    room.forgotten++
    if (!kept || spare === 0) return false
    if (row === 0) kept.removeFirst(1)
    else kept.remove(row)
    room.rows--
    return true
  }

  override adopt(bucket: number, from: LimitEventWindows, fromBucket: number): void {
    super.adopt(bucket, from, fromBucket)
    this.#drop(bucket)
    const older = from.#older[fromBucket]
    if (!older) return
    this.#put(bucket, older)
    from.#older[fromBucket] = undefined
  }

  /** Drops the rows of a bucket. */
  #drop(bucket: number): void {
    const kept = this.#older[bucket]
    if (!kept) return
    this.room.rows -= kept.length
    this.room.buckets--
    this.#older[bucket] = undefined
  }

  override write(bucket: number, to: StateWriter): void {
    super.write(bucket, to)
    const older = this.#older[bucket]
    to.whole(older ? older.length : 0)
    for (let row = 0; older && row < older.length; row++) older.write(row, to)
  }

  override read(bucket: number, from: StateReader): void {
    super.read(bucket, from)
    this.#drop(bucket)
    const rows = from.whole()
    if (rows === 0) return
    const older = this.begin(bucket, this.createKept(bucket))
    for (let row = 0; row < rows; row++) older.read(row, from)
    this.room.rows += rows
  }

  /** Rows for a bucket that has none. */
  protected abstract createKept(bucket: number): Kept

  override release(): void {
    for (let bucket = 0; bucket < this.#older.length; bucket++) this.#drop(bucket)
    this.#older.length = 0
  }
}
