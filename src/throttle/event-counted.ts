import { EventWindows, LATE, type TakenInTime } from './event-windows.js'
import { Kept, type Room } from './kept.js'
import { DISCARD, PASS } from './keyed-limiter.js'
import type { Progress } from './progress.js'

/** Columns of what is kept: when the window begins, the latest event counted in it, and how many are. */
const START = 0
const LATEST = 1
const COUNT = 2
const WIDTH = 3

/**
 * fixed: a window opens at the bucket's first counted event and covers [t, t + window). One from before it, in no
 * window that is kept, moves the beginning of the next window to itself if what that counted then still is in it, and
 * opens a window of its own otherwise. So windows do not overlap, and the first event of one and the last of the next
 * are a window's length apart at least. aligned: windows start at the multiples of the window.
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

  /** Before a newer window takes its place: keeps the newest one, and drops what has ended long enough before `time`. */
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

  /** An event from before the newest window. */
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

  /** A window before the newest one. */
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
