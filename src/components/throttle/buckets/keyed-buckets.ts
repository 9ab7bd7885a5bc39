import type { StateReader, StateWriter } from '../persist/state-bytes.js'
import type { BucketColumns } from '../windows.js'
import { BucketPart, type Lifetime, type PlacedKey } from './bucket-part.js'
import { hashBytes, type Key } from './key-table.js'

export interface BucketsOptions extends Lifetime {
  readonly maxKeys: number
}

/** If `maxKeys` is higher than this, several parts replace the single part. Usually, each has at most PART buckets. */
const UNDIVIDED = 100_000
/** Buckets per part. Growing or searching a part of this size takes a few milliseconds. */
const PART = 65_536
const MOST_PARTS = 64
/** A part may exceed its share of `maxKeys` by this factor, because parts drop idle buckets at different times. */
const SPREAD = 1.25
/** Maximum work of one call of `advance`, in checked buckets. Moving a bucket counts as checking KEEPING buckets. */
const MOST_WORK = 100_000
const KEEPING = 16
/** A part drops idle buckets if they are at least 1/4 of its buckets. A small part always drops its idle buckets. */
const WORTH_DROPPING = 4
const SMALL = 1024
/**
 * Used when `maxKeys` is reached. Each refused key allows CHECKED_PER_REFUSED buckets to be checked. A part drops its
 * idle buckets if they are at least 1 / WORTH_DROPPING_IF_FULL of the part.
 */
const CHECKED_PER_REFUSED = 8
const WORTH_DROPPING_IF_FULL = 16

/** Called for each new bucket with the windows that hold it, its id in these windows, and its key. */
export type PrepareBucket<W> = (windows: W, id: number, key: Key) => void

/**
 * Finds buckets by key. An idle bucket is equal to a new bucket, so idle buckets are dropped from time to time. The
 * key's hash assigns each bucket to a part. Parts grow one at a time, and are searched for idle buckets one at a time.
 * This keeps each step short even with millions of buckets.
 */
export class KeyedBuckets<W extends BucketColumns> {
  /** The windows that hold the bucket found by the last call of `bucket`. */
  windows: W
  /** The windows of the default bucket (id 0), for events without a key. `maxKeys` does not include this bucket. */
  readonly defaults: W
  size = 0
  readonly #options: BucketsOptions
  readonly #create: () => W
  readonly #room: BucketBound
  readonly #prepare: PrepareBucket<W> | undefined
  /** Parts, indexed by the upper bits of the hash. A part is created when its first key arrives. */
  readonly #parts: (BucketPart<W> | undefined)[]
  readonly #mask: number
  /** The only part, found without the hash. Undefined if several parts exist, or if no part was created yet. */
  #only: BucketPart<W> | undefined
  /** Indices of parts. `advance` begins with `#first`, and `dropIdleEarly` searches `#searched` next. */
  #first = 0
  #searched = 0
  #searchedAt = Number.NEGATIVE_INFINITY
  /** Holds one bucket at a time: `read` fills it, then the bucket moves to its part. */
  #read: W | undefined
  /** Number of new keys refused since `dropIdleEarly` last searched. */
  #refused = 0

  /** `room`: limits the number of buckets in all KeyedBuckets that share it. */
  constructor(
    options: BucketsOptions,
    create: () => W,
    room = new BucketBound(options.maxKeys),
    prepare?: PrepareBucket<W>,
  ) {
    this.#options = options
    this.#create = create
    this.#room = room
    this.#prepare = prepare
    this.defaults = create()
    this.windows = this.defaults
    room.add(this)
    let parts = 1
    while (options.maxKeys > UNDIVIDED && parts < MOST_PARTS && parts * PART < options.maxKeys) parts *= 2
    this.#parts = new Array(parts).fill(undefined)
    this.#mask = parts - 1
  }

  /** The part that holds all keyed buckets; undefined if there are several parts, or no keyed buckets yet. */
  get only(): BucketPart<W> | undefined {
    return this.#only
  }

  get all(): readonly W[] {
    return [this.defaults, ...this.#parts.flatMap(part => (part ? [part.windows] : []))]
  }

  get idleMs(): number {
    return this.#options.idleMs
  }

  /** Drops idle buckets. Call once for each `now`, before the first lookup at this time. */
  advance(now: number): void {
    const { idleMs } = this.#options
    if (now < this.#searchedAt) this.#searchedAt = now
    let work = 0
    for (let n = 0; n <= this.#mask; n++) {
      const part = this.#parts[(this.#first + n) & this.#mask]
      if (part === undefined) continue
      // In event time, `now` decreases when a new origin with earlier events appears.
      if (now < part.searchedAt) part.searchedAt = now
      if (now - part.searchedAt < idleMs) continue
      if (work >= MOST_WORK) {
        this.#first += n
        return
      }
      part.searchedAt = now
      work += part.size + this.#drop(part, now, part.size < SMALL ? 1 : part.size / WORTH_DROPPING, false) * KEEPING
    }
  }

  /** Drops idle buckets of a part (`BucketPart.dropIdle`). Returns how many live buckets had to be moved. */
  #drop(part: BucketPart<W>, now: number, least: number, isFull: boolean): number {
    const { size } = part
    part.dropIdle(now, least, isFull)
    this.size -= size - part.size
    this.#room.drop(size - part.size)
    return size === part.size ? 0 : part.size
  }

  clear(): void {
    for (const part of this.#parts) part?.release()
    this.#parts.fill(undefined)
    this.#only = undefined
    this.#room.drop(this.size)
    this.size = 0
  }

  /**
   * Writes the buckets that changed since they were last written; if `all`, all buckets. Skips buckets that are idle at
   * `now()`. Yields when `to` holds at least `most` bytes. Buckets may change before the generator continues.
   */
  *write(to: StateWriter, all: boolean, now: () => number, most: number): Generator<void> {
    for (let n = 0; n <= this.#mask; n++) {
      const part = this.#parts[n]
      part?.restart()
      while (part && !part.write(to, all, now(), most)) yield
    }
  }

  writeOne(key: Key, to: StateWriter, all: boolean, now: number): void {
    this.#parts[this.#indexOf(key.hash)]?.writeOne(key, to, all, now)
  }

  /**
   * Reads a bucket whose key has `length` bytes. Without `keepsUsed`, skips the bucket if it is already idle. The saved
   * state includes buckets that were dropped after they were saved. So if the bucket does not fit, drops idle buckets
   * first. Returns false if the bucket still does not fit.
   */
  read(length: number, from: StateReader, seed: number): boolean {
    const start = from.bytes(length)
    const end = from.at
    const { now } = from
    this.#read ??= this.#create()
    this.#read.read(0, from)
    const { idleMs, keepsUsed } = this.#options
    const isIdle = !keepsUsed && now - this.#read.latest(0) >= idleMs
    const { view: bytes } = from
    const key = { bytes, start, end, hash: hashBytes(bytes, start, end, seed) }
    let id = isIdle ? -1 : this.bucket(key, now)
    if (id < 0 && !isIdle && this.#room.dropIdle(now)) id = this.bucket(key, now)
    if (id < 0) this.#read.release()
    else this.windows.adopt(id, this.#read, 0)
    return isIdle || id >= 0
  }

  remove(keys: readonly Key[]): void {
    const empty = this.#create()
    for (const key of keys) this.#parts[this.#indexOf(key.hash)]?.empty(key, empty)
    // At the time -Infinity, only empty buckets are idle.
    this.dropIdle(Number.NEGATIVE_INFINITY)
  }

  /** Drops all idle buckets, including those used since the last search. */
  dropIdle(now: number): void {
    for (const part of this.#parts) if (part) this.#drop(part, now, 1, true)
  }

  /** Drops all buckets. The object must not be used afterwards. */
  release(): void {
    this.clear()
    this.defaults.release()
    this.#room.remove(this)
  }

  /** Finds or adds the bucket with this key. Returns its id in `windows`, or -1 if a new bucket has no room. */
  bucket(key: PlacedKey | undefined, now: number): number {
    if (key === undefined) {
      this.windows = this.defaults
      return 0
    }
    const { places } = key
    const part = this.#only ?? this.#partOf(key.hash, now)
    let id: number
    if (places !== undefined && places.layouts[key.place!] === part.layout) {
      id = places.ids[key.place!]!
      part.use(id)
    } else id = part.find(key)
    if (id < 0) {
      if (!this.#room.hasPlace(now)) return -1
      id = part.add(key)
      this.#prepare?.(part.windows, id, key)
      this.size++
      this.#room.size++
    }
    if (places !== undefined && places.layouts[key.place!] !== part.layout) places.set(key.place!, part.layout, id)
    // Compares the field first, because writing it costs more.
    if (this.windows !== part.windows) this.windows = part.windows
    return id
  }

  /** Like `bucket`, but does not add a missing bucket. Instead, `windows` then holds an empty bucket. */
  peek(key: Key | undefined, now: number): number {
    if (key === undefined) return this.bucket(key, now)
    const part = this.#parts[this.#indexOf(key.hash)]
    const id = part?.find(key) ?? -1
    if (id >= 0) {
      this.windows = part!.windows
      return id
    }
    if (!this.#room.hasPlace(now)) return -1
    this.windows = this.#create()
    this.#prepare?.(this.windows, 0, key)
    return 0
  }

  #partOf(hash: number, now: number): BucketPart<W> {
    const index = this.#indexOf(hash)
    return this.#parts[index] ?? this.#begin(index, now)
  }

  #indexOf(hash: number): number {
    return (hash >>> 24) & this.#mask
  }

  #begin(index: number, now: number): BucketPart<W> {
    // Spreads the searches of the parts evenly over `idleMs`.
    const searchedAt = now - (this.#options.idleMs * index) / this.#parts.length
    const parts = this.#parts.length
    const expected = Math.ceil((this.#options.maxKeys / parts) * (parts > 1 ? SPREAD : 1))
    const part = new BucketPart(this.#options, this.#create, searchedAt, expected)
    this.#parts[index] = part
    if (this.#mask === 0) this.#only = part
    return part
  }

  /**
   * Drops idle buckets of one part early, because `maxKeys` is reached. The work is proportional to the number of
   * refused keys. With n buckets in total, all parts are searched after n/8 refusals, or after 1/8 of `idleMs`.
   */
  dropIdleEarly(now: number): void {
    const part = this.#parts[this.#searched & this.#mask]
    const size = part?.size ?? 0
    const due = now - this.#searchedAt >= this.#options.idleMs / 8 / this.#parts.length
    if (!due && ++this.#refused * CHECKED_PER_REFUSED < size) return
    this.#refused = 0
    this.#searched++
    if (due) this.#searchedAt = now
    if (part) this.#drop(part, now, due ? 1 : size / WORTH_DROPPING_IF_FULL, true)
  }
}

interface Member {
  /** Drops idle buckets if a search is due. */
  advance(now: number): void
  /** Drops idle buckets early, if that is worth its cost. */
  dropIdleEarly(now: number): void
  dropIdle(now: number): void
}

/** Maximum number of members that one call of `advance` advances. */
const AT_ONCE = 16

/** Limits the total number of buckets in several KeyedBuckets, which are searched for idle buckets in turn. */
export class BucketBound {
  size = 0
  /** Number of buckets that were dropped because they were idle or their rule was removed. */
  dropped = 0
  readonly #maxKeys: number
  readonly #members: Member[] = []
  #clearedAt = Number.NEGATIVE_INFINITY
  #advanced = 0
  #searched = 0

  constructor(maxKeys: number) {
    this.#maxKeys = maxKeys
  }

  drop(buckets: number): void {
    this.size -= buckets
    this.dropped += buckets
  }

  add(member: Member): void {
    this.#members.push(member)
  }

  /** Removes a member that has no buckets any more. */
  remove(member: Member): void {
    this.#members.splice(this.#members.indexOf(member), 1)
  }

  advance(now: number): void {
    const members = this.#members
    for (let n = Math.min(members.length, AT_ONCE); n > 0; n--) {
      this.#advanced = (this.#advanced + 1) % members.length
      members[this.#advanced]!.advance(now)
    }
  }

  /** Returns whether there is room for one more bucket. If not, first tries to drop idle buckets. */
  hasPlace(now: number): boolean {
    if (this.size < this.#maxKeys) return true
    this.#searched = (this.#searched + 1) % this.#members.length
    this.#members[this.#searched]!.dropIdleEarly(now)
    return this.size < this.#maxKeys
  }

  /**
   * Drops all idle buckets, which is slow. Does nothing if an earlier call had the same or a later `now`. Returns
   * whether there is room.
   */
  dropIdle(now: number): boolean {
    if (now > this.#clearedAt) {
      this.#clearedAt = now
      for (const member of this.#members) member.dropIdle(now)
    }
    return this.size < this.#maxKeys
  }
}
