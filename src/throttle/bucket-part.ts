import { type Key, KeyTable } from './key-table.js'
import type { BucketColumns } from './windows.js'

export interface Lifetime {
  /** How long a bucket is live after the time that `latest` of its windows returns. */
  readonly idleMs: number
  /** Whether a bucket used since the last search counts as live. In event time, its events may be far behind. */
  readonly keepsUsed: boolean
}

/** Where a bucket is, for as long as its part has these windows. */
export interface Place {
  part: BucketPart<BucketColumns> | undefined
  windows: BucketColumns | undefined
  id: number
}

/** A key, and where its bucket was last found if somebody keeps that. */
export interface PlacedKey extends Key {
  readonly place?: Place | undefined
}

/** Some of the buckets of a throttle: the table of their keys, and their windows. */
export class BucketPart<W extends BucketColumns> {
  /** The windows of the buckets that `find` and `add` return. */
  windows: W
  /** When idle buckets were last searched for. */
  searchedAt: number
  readonly #lifetime: Lifetime
  readonly #create: () => W
  #keys = new KeyTable()
  /** Whether a bucket was used since the last search. */
  #used: Uint8Array | undefined

  constructor(lifetime: Lifetime, create: () => W, searchedAt: number) {
    this.#lifetime = lifetime
    this.#create = create
    this.windows = create()
    this.searchedAt = searchedAt
    if (lifetime.keepsUsed) this.#used = new Uint8Array(this.#keys.capacity)
  }

  get size(): number {
    return this.#keys.size
  }

  /** The id of a bucket, or -1. */
  find(key: Key): number {
    const id = this.#keys.find(key)
    if (id >= 0) this.use(id)
    return id
  }

  /** Notes that a bucket is used. */
  use(id: number): void {
    if (this.#used !== undefined) this.#used[id] = 1
  }

  /** Adds a new bucket; returns its id. */
  add(key: Key): number {
    const id = this.#keys.add(key)
    this.windows.reserve(this.#keys.capacity)
    if (this.#used === undefined) return id
    if (id >= this.#used.length) {
      const used = new Uint8Array(this.#keys.capacity)
      used.set(this.#used)
      this.#used = used
    }
    this.#used[id] = 1
    return id
  }

  /** Drops all buckets for good. */
  release(): void {
    this.windows.release()
    this.windows = this.#create()
  }

  /** Drops idle buckets if there are at least `least`; also those that were used if `isFull`. */
  dropIdle(now: number, least: number, isFull: boolean): void {
    const { size } = this
    const used = isFull ? undefined : this.#used
    let live = 0
    for (let id = 0; id < size; id++) if (this.#isLive(id, now, used)) live++
    if (live < size && size - live >= least) this.#keep(live, now, used)
    if (!isFull) this.#used?.fill(0)
  }

  #isLive(id: number, now: number, used: Uint8Array | undefined): boolean {
    return now - this.windows.latest(id) < this.#lifetime.idleMs || used?.[id] === 1
  }

  /** A table for so many of the keys, if they are as long as the others. */
  #tableFor(live: number): KeyTable {
    return new KeyTable(live, (this.#keys.keyBytes * live) / this.size)
  }

  /** Keeps the live buckets, of which there are `live`. */
  #keep(live: number, now: number, used: Uint8Array | undefined): void {
    const [keys, windows] = [this.#tableFor(live), this.#create()]
    windows.reserve(keys.capacity)
    for (let id = 0; live > 0 && id < this.size; id++) {
      if (this.#isLive(id, now, used)) windows.adopt(keys.take(this.#keys, id), this.windows, id)
    }
    this.windows.release()
    this.windows = windows
    this.#keys = keys
    if (this.#used) this.#used = new Uint8Array(keys.capacity)
  }
}
