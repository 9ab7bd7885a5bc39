import { hashBytes, KeyTable } from './key-table.js'
import type { BucketColumns } from './windows.js'

export interface BucketsOptions {
  /** How long a bucket is live after its newest window opened. */
  readonly idleMs: number
  readonly maxKeys: number
  /** Any integer; random if keys come from outside. */
  readonly seed: number
  /** Whether a bucket unused for `idleMs` is idle. In event time it may be ahead, and is checked first. */
  readonly unusedIsIdle: boolean
}

/** The buckets used for the first time, or again, in one time span. */
interface Generation<W> {
  readonly keys: KeyTable
  readonly windows: W
}

/** Number of buckets that may be checked per refused key. */
const LOOKED_AT_PER_REFUSED = 8
/** Minimum share (1/16) of idle buckets for dropping them early. */
const WORTH_DROPPING = 16

/**
 * Buckets by key, in two generations. A lookup finds a bucket in the young generation or moves it there from the old
 * one. After `idleMs` the young generation becomes the old one; buckets left in the previous old one were not used for
 * as long, so they are idle and are dropped at once. Idle buckets are released without a sweep, and no live window is
 * forgotten.
 */
export class KeyedBuckets<W extends BucketColumns> {
  /** The windows of the buckets returned by `bucket`. */
  windows: W
  readonly #options: BucketsOptions
  readonly #create: () => W
  #young: Generation<W>
  #old: Generation<W>
  /** Buckets left in the old generation. */
  #oldCount = 0
  #turnedAt = Number.NEGATIVE_INFINITY
  #droppedAt = Number.NEGATIVE_INFINITY
  /** New keys refused since the last search for idle buckets. */
  #refused = 0

  constructor(options: BucketsOptions, create: () => W) {
    this.#options = options
    this.#create = create
    this.#young = this.#generation()
    this.#old = this.#generation()
    this.windows = this.#young.windows
  }

  #generation(): Generation<W> {
    return { keys: new KeyTable(), windows: this.#create() }
  }

  #begin(): void {
    this.#young = this.#generation()
    this.windows = this.#young.windows
  }

  /** The windows of all buckets. */
  get all(): readonly W[] {
    return [this.#young.windows, this.#old.windows]
  }

  /** Number of buckets in memory. */
  get size(): number {
    return this.#young.keys.size + this.#oldCount
  }

  /** Drops idle buckets. Call before the lookups for one point in time. */
  advance(now: number): void {
    const { idleMs, unusedIsIdle } = this.#options
    if (now - this.#turnedAt < idleMs) {
      if (!unusedIsIdle && now < this.#turnedAt) this.#turnedAt = this.#droppedAt = now
      return
    }
    // After two time spans without any call, the young generation is idle, too.
    const both = unusedIsIdle && now - this.#turnedAt >= idleMs * 2
    const [gone, goneCount] = [this.#old, this.#oldCount]
    if (both) this.#young.windows.release()
    this.#old = both ? this.#generation() : this.#young
    this.#oldCount = this.#old.keys.size
    this.#begin()
    this.#turnedAt = now
    if (!unusedIsIdle && goneCount > 0) this.#keep(this.#young, gone, now)
    gone.windows.release()
  }

  /** Drops all buckets. */
  clear(): void {
    this.#young.windows.release()
    this.#old.windows.release()
    this.#begin()
    this.#old = this.#generation()
    this.#oldCount = 0
  }

  /** The id, in `windows`, of the bucket with key bytes[start, end); -1 if there is no room for a new one. */
  bucket(bytes: DataView, start: number, end: number, now: number): number {
    const hash = hashBytes(bytes, start, end, this.#options.seed)
    const id = this.#young.keys.find(bytes, start, end, hash)
    return id < 0 ? this.#enter(bytes, start, end, hash, now) : id
  }

  /** Like `bucket`, for a bucket that is in the old generation or new. */
  #enter(bytes: DataView, start: number, end: number, hash: number, now: number): number {
    const old = this.#oldCount > 0 ? this.#old.keys.find(bytes, start, end, hash) : -1
    if (old < 0 && this.size >= this.#options.maxKeys && !this.#makeRoom(now)) return -1
    const { keys, windows } = this.#young
    const id = keys.add(bytes, start, end, hash)
    windows.reserve(id + 1)
    if (old >= 0) {
      windows.adopt(id, this.#old.windows, old)
      this.#oldCount--
    }
    return id
  }

  /**
   * Drops idle buckets early because `maxKeys` is reached; returns whether there is room now. The work is proportional
   * to the number of refused keys: among n buckets, idle ones are found after n/8 refusals, or after 1/8 of `idleMs`.
   */
  #makeRoom(now: number): boolean {
    const due = now - this.#droppedAt >= this.#options.idleMs / 8
    if (!due && ++this.#refused * LOOKED_AT_PER_REFUSED < this.size) return false
    this.#refused = 0
    if (due) this.#droppedAt = now
    const young = this.#live(this.#young, now)
    const old = this.#oldCount > 0 ? this.#live(this.#old, now) : 0
    const idle = this.size - young - old
    if (idle === 0 || (!due && idle * WORTH_DROPPING < this.size)) return false
    const [gone, goneOld] = [this.#young, this.#old]
    this.#begin()
    this.#old = this.#generation()
    this.#oldCount = 0
    this.#keep(this.#young, gone, now)
    if (old > 0) this.#keep(this.#young, goneOld, now)
    gone.windows.release()
    goneOld.windows.release()
    return true
  }

  #isLive(windows: W, id: number, now: number): boolean {
    return now - windows.latest(id) < this.#options.idleMs
  }

  #live({ keys, windows }: Generation<W>, now: number): number {
    let live = 0
    for (let id = 0; id < keys.size; id++) if (this.#isLive(windows, id, now)) live++
    return live
  }

  #keep(into: Generation<W>, from: Generation<W>, now: number): void {
    for (let id = 0; id < from.keys.size; id++) {
      if (!this.#isLive(from.windows, id, now)) continue
      const at = into.keys.take(from.keys, id)
      into.windows.reserve(at + 1)
      into.windows.adopt(at, from.windows, id)
    }
  }
}
