import { resized } from '../../../lib/columns.js'
import type { StateWriter } from '../persist/state-bytes.js'
import type { BucketColumns } from '../windows.js'
import { type Key, type KeyRanges, KeyTable } from './key-table.js'

export interface Lifetime {
  /** How long a bucket stays live after its time `latest` (see BucketColumns). */
  readonly idleMs: number
  /** Whether a bucket stays live if it was used since the last search. In event time, it may have only old events. */
  readonly keepsUsed: boolean
  /** Whether to record which buckets were used since `write` last wrote them. */
  readonly notesChanges?: boolean | undefined
}

/** Bits of each bucket. USED: used since the last search for idle buckets. CHANGED: used since it was last written. */
const USED = 1
const CHANGED = 2
const BOTH = USED | CHANGED

/** A part shrinks if less than 1 / SPARSE of its ids are in use. */
const SPARSE = 4
const SMALLEST = 64

/** Records where the bucket of each known key was last found: the layout of the part, and the bucket's id there. */
export class Places {
  readonly layouts: (object | undefined)[] = []
  ids = new Int32Array(8)

  add(): void {
    if (this.layouts.push(undefined) <= this.ids.length) return
    this.ids = resized(this.ids, this.ids.length * 2)
  }

  set(place: number, layout: object, id: number): void {
    this.layouts[place] = layout
    this.ids[place] = id
  }
}

/** `place` is the index of the key in `places`. */
export interface PlacedKey extends Key {
  readonly places?: Places | undefined
  readonly place?: number
}

/** Some of the buckets of a throttle: the table of their keys, and their windows. */
export class BucketPart<W extends BucketColumns> {
  /** The windows of the buckets that `find` and `add` return. */
  windows: W
  searchedAt: number
  /** A new object each time that buckets get other ids. */
  layout = {}
  readonly #lifetime: Lifetime
  readonly #create: () => W
  readonly #expected: number
  #keys: KeyTable
  /** The bits USED and CHANGED of each bucket; undefined: not needed. */
  #used: Uint8Array | undefined
  /** The id of the bucket that `write` writes next. */
  #written = 0

  constructor(lifetime: Lifetime, create: () => W, searchedAt: number, expected: number) {
    this.#lifetime = lifetime
    this.#expected = expected
    this.#keys = new KeyTable(0, 0, expected)
    this.#create = create
    this.windows = create()
    this.searchedAt = searchedAt
    if (lifetime.keepsUsed || lifetime.notesChanges) this.#used = new Uint8Array(this.#keys.capacity)
  }

  get size(): number {
    return this.#keys.size
  }

  /** The id of the bucket with this key, or -1. Marks the bucket as used. */
  find(key: Key): number {
    const id = this.#keys.find(key)
    // V8 would not inline `use`.
    if (id >= 0 && this.#used !== undefined) this.#used[id] = BOTH
    return id
  }

  findAll(keys: KeyRanges, length: number, left: number): void {
    if (left > 0) this.#keys.findAll(keys, length)
    this.useAll(keys.ids, length)
  }

  /** Marks the buckets of the first `length` events as used. Skips negative ids. */
  useAll(ids: Int32Array, length: number): void {
    const used = this.#used
    if (used === undefined) return
    for (let i = 0; i < length; i++) if (ids[i]! >= 0) used[ids[i]!] = BOTH
  }

  use(id: number): void {
    if (this.#used !== undefined) this.#used[id] = BOTH
  }

  add(key: Key): number {
    const id = this.#keys.add(key)
    this.windows.reserve(this.#keys.capacity)
    if (this.#used === undefined) return id
    if (id >= this.#used.length) this.#used = resized(this.#used, this.#keys.capacity)
    this.#used[id] = BOTH
    return id
  }

  /** Drops all buckets. The part must not be used afterwards. */
  release(): void {
    this.windows.release()
    this.windows = this.#create()
    this.layout = {}
  }

  /**
   * Drops idle buckets if at least `least` buckets are idle. With `isFull`, even a bucket that was used since the last
   * search can be idle.
   */
  dropIdle(now: number, least: number, isFull: boolean): void {
    const { size } = this
    const used = isFull || !this.#lifetime.keepsUsed ? undefined : this.#used
    let live = 0
    for (let id = 0; id < size; id++) if (this.#isLive(id, now, used)) live++
    const { capacity } = this.#keys
    if (capacity > SMALLEST && (live === 0 || size * SPARSE < capacity)) this.#shrink(live, now, used)
    else if (live < size && size - live >= least) this.#compact(now, used)
    if (used) for (let id = 0; id < this.#used!.length; id++) this.#used![id]! &= CHANGED
  }

  #isLive(id: number, now: number, used: Uint8Array | undefined): boolean {
    return now - this.windows.latest(id) < this.#lifetime.idleMs || (used !== undefined && (used[id]! & USED) !== 0)
  }

  #tableFor(live: number): KeyTable {
    return new KeyTable(live, (this.#keys.keyBytes * live) / this.size, this.#expected)
  }

  /** Drops idle buckets without allocating memory, because frequent allocation would fragment the memory. */
  #compact(now: number, used: Uint8Array | undefined): void {
    const { size, windows } = this
    const notes = this.#used
    let written = 0
    this.#keys.keep((id, to) => {
      if (!this.#isLive(id, now, used)) return false
      if (to < id) windows.adopt(to, windows, id)
      if (notes) notes[to] = notes[id]! & CHANGED
      if (id < this.#written) written++
      return true
    })
    const empty = this.#create()
    for (let id = this.size; id < size; id++) windows.adopt(id, empty, 0)
    this.#written = written
    this.layout = {}
  }

  /** Moves the live buckets into less memory. `live`: number of live buckets. */
  #shrink(live: number, now: number, used: Uint8Array | undefined): void {
    const [keys, windows] = [this.#tableFor(live), this.#create()]
    windows.reserve(keys.capacity)
    const before = this.#used
    if (before) this.#used = new Uint8Array(keys.capacity)
    let written = 0
    for (let id = 0; live > 0 && id < this.size; id++) {
      if (!this.#isLive(id, now, used)) continue
      const kept = keys.take(this.#keys, id)
      windows.adopt(kept, this.windows, id)
      if (before) this.#used![kept] = before[id]! & CHANGED
      if (id < this.#written) written++
    }
    this.#written = written
    this.windows.release()
    this.windows = windows
    this.#keys = keys
    this.layout = {}
  }

  /** Empties the bucket with this key. `empty`: windows whose bucket 0 is empty. */
  empty(key: Key, empty: W): void {
    const id = this.#keys.find(key)
    if (id >= 0) this.windows.adopt(id, empty, 0)
  }

  /** Makes `write` start again with the first bucket. */
  restart(): void {
    this.#written = 0
  }

  /**
   * Writes the buckets that were used since they were last written; if `all`, writes all buckets. Skips idle buckets.
   * When `to` holds at least `most` bytes, stops and returns false. Returns true if all buckets are done.
   */
  write(to: StateWriter, all: boolean, now: number, most: number): boolean {
    while (this.#written < this.size) {
      this.#write(this.#written++, to, all, now)
      if (to.length >= most) return false
    }
    return true
  }

  writeOne(key: Key, to: StateWriter, all: boolean, now: number): void {
    const id = this.#keys.find(key)
    if (id >= 0) this.#write(id, to, all, now)
  }

  #write(id: number, to: StateWriter, all: boolean, now: number): void {
    const used = this.#used!
    if (!all && (used[id]! & CHANGED) === 0) return
    used[id]! &= USED
    if (!this.#isLive(id, now, undefined)) return
    this.#keys.write(id, to)
    this.windows.write(id, to)
  }
}
