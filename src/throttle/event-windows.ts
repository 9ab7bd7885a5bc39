import { BoundedMap } from '../lib/bounded-map.js'
import type { DISCARD, PASS } from './decider.js'
import { BucketColumns } from './windows.js'

/** A pause counts as so much: an outage is no reason to give up on anybody. */
const LONGEST_PAUSE_MS = 1000
/** After so much time without an event from it, an origin is not waited for. */
const ACTIVE_MS = 60_000
/** Beyond so many the one that came first is not waited for any more: each HTTP request is one. */
const MOST_ORIGINS = 10_000
/** Origins that may be looked at for each batch. */
const LOOKED_AT_PER_BATCH = 8

/** How far the times in one origin's events have come. */
interface Reached {
  readonly origin: object
  newest: number
  /** When something came from it, in `#elapsed`. */
  at: number
}

/**
 * How far the times of the events have come: in each origin (a file, a connection) by itself, since one may catch up
 * while others are live. An event is late when it is behind both the newest of its origin and the newest of its bucket
 * by more than the lateness that is allowed: so neither makes those late that are in order there.
 */
export class Progress {
  /** Every origin of which something came lately has reached this time. Falls when one comes that has not. */
  oldest = Number.NEGATIVE_INFINITY
  readonly latenessMs: number
  readonly #origins = new BoundedMap<object, Reached>(MOST_ORIGINS)
  #current: Reached = { origin: this, newest: Number.NEGATIVE_INFINITY, at: 0 }
  /** Milliseconds in which events came. */
  #elapsed = 0
  #enteredAt = Number.NaN
  #batches = 0

  constructor(latenessMs: number) {
    this.latenessMs = latenessMs
  }

  /** The events that are seen next are from `origin`; `clock` is monotonic, `arrival` the wall clock. */
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

  /** An event of the current origin says this time. */
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

  /** How long nothing came. */
  silentMs(clock: number): number {
    return clock - this.#enteredAt
  }

  /** An event of the current origin that is earlier than this is late in a bucket whose newest event is of `newest`. */
  lateBefore(newest: number): number {
    return Math.min(newest, this.#current.newest) - this.latenessMs
  }

  /** No event of an origin that is waited for, in such a bucket, is before this and not late. */
  keptFrom(newest: number): number {
    return Math.min(newest, this.oldest) - this.latenessMs
  }
}

const START = 0
const SMALLEST = 4

/** What all buckets of a throttle keep besides their newest windows. */
export interface Room {
  /** Windows or runs, and buckets that keep some or did. */
  rows: number
  buckets: number
  /** Rows that were dropped before their time, since there was no more room. */
  forgotten: number
}

/** A bucket's windows or runs before the newest one, in the order of their times: rows of numbers, the first its time. */
export class Kept {
  length = 0
  readonly #width: number
  #cells: Float64Array
  /** The row that is the first one. */
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

  /** How many rows are of `time` or before it. */
  upTo(time: number): number {
    let [low, high] = [0, this.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.get(middle, START) <= time) low = middle + 1
      else high = middle
    }
    return low
  }

  /** Makes row `row` a new one; the caller sets what is in it. */
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

  /** To the front of `cells`, which may be those where the rows are now. */
  #move(cells: Float64Array): void {
    const from = this.#first * this.#width
    cells.set(this.#cells.subarray(from, from + this.length * this.#width))
    this.#cells = cells
    this.#first = 0
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

/** The event's window is not kept any more: not counted. */
export const LATE = 5

export type TakenInTime = typeof PASS | typeof DISCARD | typeof LATE

/** Most rows that one bucket keeps, and most of all buckets of a throttle together: about 50 MB. */
const MOST_OF_ONE = 4096
const MOST_OF_ALL = 2_000_000
/** A bucket that keeps any takes as much memory as so many rows. */
const ROWS_PER_BUCKET = 16

/**
 * Windows in the time of the events, whatever their order: a bucket keeps those before its newest one for as long as
 * events that are not late may fall into them. Where there is no room for so many, one in the middle is forgotten: an
 * event of its time opens another. So what is missing never discards an event.
 */
export abstract class EventWindows extends BucketColumns {
  protected readonly limit: number
  protected readonly windowMs: number
  protected readonly progress: Progress
  protected readonly room: Room
  readonly #older: (Kept | undefined)[] = []

  constructor(limit: number, windowMs: number, progress: Progress, room: Room) {
    super()
    this.limit = limit
    this.windowMs = windowMs
    this.progress = progress
    this.room = room
  }

  /** Decides on an event of `bucket` at `time`, and counts it when it passes. */
  abstract take(bucket: number, time: number): TakenInTime

  protected older(bucket: number): Kept | undefined {
    return this.#older[bucket]
  }

  /** From now on the bucket keeps something. */
  protected begin<K extends Kept>(bucket: number, kept: K): K {
    this.room.buckets++
    this.#put(bucket, kept)
    return kept
  }

  #put(bucket: number, kept: Kept): void {
    // Not one by one: an array with far gaps would become a dictionary.
    if (this.#older.length < this.counts.length) this.#older.length = this.counts.length
    this.#older[bucket] = kept
  }

  /** Whether there is room for one more row, after one of the first `spare` was forgotten if need be. */
  protected makeRoom(kept: Kept | undefined, spare: number): boolean {
    const { room } = this
    if (spare < MOST_OF_ONE && room.rows + room.buckets * ROWS_PER_BUCKET < MOST_OF_ALL) return true
    room.forgotten++
    if (!kept || spare === 0) return false
    kept.remove(spare >> 1)
    room.rows--
    return true
  }

  override adopt(bucket: number, from: EventWindows, fromBucket: number): void {
    super.adopt(bucket, from, fromBucket)
    const older = from.#older[fromBucket]
    if (!older) return
    this.#put(bucket, older)
    from.#older[fromBucket] = undefined
  }

  override release(): void {
    for (const kept of this.#older) {
      if (!kept) continue
      this.room.rows -= kept.length
      this.room.buckets--
    }
    this.#older.length = 0
  }
}
