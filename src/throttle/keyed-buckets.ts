import { hashBytes, KeyTable } from './key-table.js'
import type { BucketColumns } from './windows.js'

export interface BucketsOptions {
  /** For so long after its newest window opened, a bucket is live. */
  readonly idleMs: number
  readonly maxKeys: number
  /** Any whole number; random where keys come from outside. */
  readonly seed: number
  /**
   * Whether a bucket that was not used for `idleMs` is idle: so it is where the time is that of the events. Otherwise
   * an unused bucket may be ahead of the time, and is looked at before it is dropped.
   */
  readonly unusedIsIdle: boolean
}

/** The buckets first used, or used again, in one span of time. */
interface Generation<W> {
  readonly keys: KeyTable
  readonly windows: W
}

/** Buckets that may be looked at for each key that was refused. */
const LOOKED_AT_PER_REFUSED = 8
/** The share of buckets that must be idle for it to be worth it to drop them before their time. */
const WORTH_DROPPING = 16

/**
 * Buckets by key, in two generations: a lookup finds a bucket in the young one or moves it there from the old one.
 * After `idleMs` the young become the old, and what is still in the old then was not used for as long: it is idle, and
 * dropped at once. So idle buckets are released without a sweep, and no live window is ever forgotten.
 */
export class KeyedBuckets<W extends BucketColumns> {
  /** The windows of the buckets that `bucket` finds. */
  windows: W
  readonly #options: BucketsOptions
  readonly #create: () => W
  #young: Generation<W>
  #old: Generation<W>
  /** Buckets of the old generation that were not moved. */
  #oldCount = 0
  #turnedAt = Number.NEGATIVE_INFINITY
  #droppedAt = Number.NEGATIVE_INFINITY
  /** New keys refused since the last look for idle buckets. */
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

  /** Buckets in memory. */
  get size(): number {
    return this.#young.keys.size + this.#oldCount
  }

  /** Drops what is idle. Called before the lookups of one point in time. */
  advance(now: number): void {
    const { idleMs, unusedIsIdle } = this.#options
    if (now - this.#turnedAt < idleMs) {
      if (!unusedIsIdle && now < this.#turnedAt) this.#turnedAt = this.#droppedAt = now
      return
    }
    // Two spans on, nothing at all happened for a whole one: the young are idle too.
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

  /** Drops everything. */
  clear(): void {
    this.#young.windows.release()
    this.#old.windows.release()
    this.#begin()
    this.#old = this.#generation()
    this.#oldCount = 0
  }

  /** The id, in `windows`, of the bucket whose key is bytes[start, end); -1 where there is no room for a new one. */
  bucket(bytes: Uint8Array, start: number, end: number, now: number): number {
    const hash = hashBytes(bytes, start, end, this.#options.seed)
    const id = this.#young.keys.find(bytes, start, end, hash)
    return id < 0 ? this.#enter(bytes, start, end, hash, now) : id
  }

  /** As `bucket`, of one that is not among the young: from the old, or new. */
  #enter(bytes: Uint8Array, start: number, end: number, hash: number, now: number): number {
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
   * Drops idle buckets before their generation's time, since `maxKeys` is reached; whether there is room now. The work
   * is in proportion to the keys that were refused, whatever comes: among many buckets, idle ones are seen after an
   * eighth as many refusals, or an eighth of the time.
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
