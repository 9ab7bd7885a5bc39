import type { Kept, Room } from './kept.js'
import type { DISCARD, PASS } from './keyed-limiter.js'
import type { Progress } from './progress.js'
import { BucketColumns } from './windows.js'

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
