import { createHash } from 'node:crypto'
import { type FieldReader, MISSING, NULL } from '../core/event/field-reader.js'
import type { BucketColumns } from './windows.js'

/** Keys above this many bytes are kept as their digest, so that they cannot fill the memory. */
const LONGEST_KEY = 256

/**
 * The bytes that name an event's bucket: the UTF-8 of the value's text. Two texts have the same bytes only when they
 * are the same: what UTF-8 cannot say, and digests of long keys, start with a byte that UTF-8 never has.
 */
export class BucketKey {
  bytes: Uint8Array = Buffer.alloc(0)
  start = 0
  end = 0

  /** False: the event has no value in the field (missing, null, the empty string) and belongs to the default bucket. */
  read(reader: FieldReader): boolean {
    if (reader.kind === MISSING || reader.kind === NULL) return false
    if (reader.plain) {
      this.bytes = reader.bytes
      this.start = reader.start
      this.end = reader.end
    } else {
      const text = reader.text()
      this.bytes = text.isWellFormed() ? Buffer.from(text) : marked(0xff, Buffer.from(text, 'utf16le'))
      this.start = 0
      this.end = this.bytes.length
    }
    if (this.end - this.start > LONGEST_KEY) {
      this.bytes = marked(0xfe, createHash('sha256').update(this.bytes.subarray(this.start, this.end)).digest())
      this.start = 0
      this.end = this.bytes.length
    }
    return this.end > this.start
  }
}

function marked(mark: number, bytes: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from([mark]), bytes])
}

/**
 * Keys, as bytes, to small whole numbers: an open-addressing hash table over typed arrays. A lookup allocates nothing
 * and makes no string; a key costs its own bytes and about 20 more. Keys are only added: a table that is no longer
 * needed is dropped whole (keyed-limiter.ts).
 */
export class KeyTable {
  /** Ids by hash, plus one; 0 is free. At most half are taken. */
  #places = new Int32Array(16)
  #hashes = new Int32Array(8)
  /** Where the key of an id starts in #keys; that of id + 1 is its end. */
  #offsets = new Uint32Array(9)
  #keys = Buffer.alloc(128)
  #size = 0

  get size(): number {
    return this.#size
  }

  /** Memory of the table, in bytes. */
  get bytes(): number {
    return this.#places.byteLength + this.#hashes.byteLength + this.#offsets.byteLength + this.#keys.length
  }

  /** The id of the key bytes[start, end), or -1. `hash` is hashBytes of it. */
  find(bytes: Uint8Array, start: number, end: number, hash: number): number {
    const mask = this.#places.length - 1
    for (let place = hash & mask; ; place = (place + 1) & mask) {
      const id = this.#places[place]! - 1
      if (id < 0) return -1
      if (this.#hashes[id] === hash && this.#equals(id, bytes, start, end)) return id
    }
  }

  #equals(id: number, bytes: Uint8Array, start: number, end: number): boolean {
    const keys = this.#keys
    let at = this.#offsets[id]!
    if (this.#offsets[id + 1]! - at !== end - start) return false
    for (let p = start; p < end; p++) if (bytes[p] !== keys[at++]) return false
    return true
  }

  /** Adds a key that is not there; returns its id: 0, 1, 2, … */
  add(bytes: Uint8Array, start: number, end: number, hash: number): number {
    const id = this.#size
    if (id === this.#hashes.length) this.#grow()
    const at = this.#offsets[id]!
    const next = at + end - start
    if (next > this.#keys.length) this.#growKeys(next)
    for (let p = start, to = at; p < end; p++) this.#keys[to++] = bytes[p]!
    this.#offsets[id + 1] = next
    this.#hashes[id] = hash
    this.#size = id + 1
    this.#place(id, hash)
    return id
  }

  #place(id: number, hash: number): void {
    const mask = this.#places.length - 1
    let place = hash & mask
    while (this.#places[place] !== 0) place = (place + 1) & mask
    this.#places[place] = id + 1
  }

  #growKeys(atLeast: number): void {
    const length = this.#keys.length
    // Large ones by half: what is spare is memory, too.
    const larger = Buffer.alloc(Math.max(atLeast, length < 1 << 20 ? length * 2 : Math.ceil(length * 1.5)))
    this.#keys.copy(larger)
    this.#keys = larger
  }

  #grow(): void {
    const capacity = this.#hashes.length * 2
    const hashes = new Int32Array(capacity)
    hashes.set(this.#hashes)
    this.#hashes = hashes
    const offsets = new Uint32Array(capacity + 1)
    offsets.set(this.#offsets)
    this.#offsets = offsets
    this.#places = new Int32Array(capacity * 2)
    for (let id = 0; id < this.#size; id++) this.#place(id, hashes[id]!)
  }

  /** Moves key `id` of another table here; returns its id here. */
  take(from: KeyTable, id: number): number {
    return this.add(from.#keys, from.#offsets[id]!, from.#offsets[id + 1]!, from.#hashes[id]!)
  }

  /** The key of `id` as text. */
  key(id: number): string {
    return this.#keys.toString('utf8', this.#offsets[id]!, this.#offsets[id + 1]!)
  }
}

/** A 32-bit hash of bytes[start, end): one multiplication a byte, then mixed. `seed` keeps collisions unpredictable. */
export function hashBytes(bytes: Uint8Array, start: number, end: number, seed: number): number {
  let hash = seed
  for (let p = start; p < end; p++) hash = Math.imul(hash ^ bytes[p]!, 0x01000193) ^ (hash >>> 15)
  hash = Math.imul(hash ^ (hash >>> 16), 0x7feb352d)
  return (hash ^ (hash >>> 15)) | 0
}

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
