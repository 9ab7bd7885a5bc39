import { createHash } from 'node:crypto'
import { type FieldReader, MISSING, NULL } from '../core/event/field-reader.js'
import type { BucketColumns } from './windows.js'

/** Keys longer than this, in bytes, are stored as their digest, to limit memory. */
const LONGEST_KEY = 256

/**
 * The bytes that identify an event's bucket: the value's text in UTF-8. Different texts have different bytes: text that
 * UTF-8 cannot represent and digests of long keys start with a byte that does not occur in UTF-8.
 */
export class BucketKey {
  /** What the key is a part of, to be read several bytes at a time. */
  bytes = viewOf(Buffer.alloc(0))
  start = 0
  end = 0
  #read: Uint8Array | undefined

  /** False if the event has no value in the field (missing, null, empty) and belongs to the default bucket. */
  read(reader: FieldReader): boolean {
    if (reader.kind === MISSING || reader.kind === NULL) return false
    if (reader.plain) this.#set(reader.bytes, reader.start, reader.end)
    else {
      const text = reader.text()
      this.#setAll(text.isWellFormed() ? Buffer.from(text) : marked(0xff, Buffer.from(text, 'utf16le')))
    }
    if (this.end - this.start > LONGEST_KEY) {
      const key = this.#read!.subarray(this.start, this.end)
      this.#setAll(marked(0xfe, createHash('sha256').update(key).digest()))
    }
    return this.end > this.start
  }

  #setAll(bytes: Uint8Array): void {
    this.#set(bytes, 0, bytes.length)
  }

  #set(bytes: Uint8Array, start: number, end: number): void {
    // Most keys are in the same chunk as the one before.
    if (bytes !== this.#read) {
      this.#read = bytes
      this.bytes = viewOf(bytes)
    }
    this.start = start
    this.end = end
  }
}

function marked(mark: number, bytes: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from([mark]), bytes])
}

/**
 * Maps keys, as bytes, to consecutive numbers: an open-addressing hash table over typed arrays. A lookup allocates
 * nothing and builds no string. A key costs its own bytes and about 20 more. Keys are never removed; a table that is no
 * longer needed is dropped as a whole (KeyedBuckets).
 */
export class KeyTable {
  /** Ids by hash, plus one; 0 is free. At most half are used. */
  #places = new Int32Array(16)
  #hashes = new Int32Array(8)
  /** Start of the key of an id in #keys; its end is the start of the next one. */
  #offsets = new Uint32Array(9)
  #keys = Buffer.alloc(128)
  #view = viewOf(this.#keys)
  #size = 0

  get size(): number {
    return this.#size
  }

  /** Memory of the table, in bytes. */
  get bytes(): number {
    return this.#places.byteLength + this.#hashes.byteLength + this.#offsets.byteLength + this.#keys.length
  }

  /** The id of the key [start, end) of `bytes`, or -1. `hash` is the result of hashBytes. */
  find(bytes: DataView, start: number, end: number, hash: number): number {
    const mask = this.#places.length - 1
    for (let place = hash & mask; ; place = (place + 1) & mask) {
      const id = this.#places[place]! - 1
      if (id < 0) return -1
      if (this.#hashes[id] === hash && this.#equals(id, bytes, start, end)) return id
    }
  }

  #equals(id: number, bytes: DataView, start: number, end: number): boolean {
    const keys = this.#view
    let at = this.#offsets[id]!
    if (this.#offsets[id + 1]! - at !== end - start) return false
    let p = start
    for (; p + 4 <= end; p += 4, at += 4) if (bytes.getInt32(p, true) !== keys.getInt32(at, true)) return false
    for (; p < end; p++, at++) if (bytes.getUint8(p) !== keys.getUint8(at)) return false
    return true
  }

  /** Adds a new key; returns its id: 0, 1, 2, … */
  add(bytes: DataView, start: number, end: number, hash: number): number {
    const id = this.#size
    if (id === this.#hashes.length) this.#grow()
    const at = this.#offsets[id]!
    const next = at + end - start
    if (next > this.#keys.length) this.#growKeys(next)
    for (let p = start, to = at; p < end; p++) this.#keys[to++] = bytes.getUint8(p)
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
    // Large tables grow by half, to limit unused memory.
    const larger = Buffer.alloc(Math.max(atLeast, length < 1 << 20 ? length * 2 : Math.ceil(length * 1.5)))
    this.#keys.copy(larger)
    this.#keys = larger
    this.#view = viewOf(larger)
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

  /** Copies key `id` from another table; returns its id here. */
  take(from: KeyTable, id: number): number {
    return this.add(from.#view, from.#offsets[id]!, from.#offsets[id + 1]!, from.#hashes[id]!)
  }

  key(id: number): string {
    return this.#keys.toString('utf8', this.#offsets[id]!, this.#offsets[id + 1]!)
  }
}

export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
}

/**
 * A 32-bit hash of [start, end): one multiplication for two bytes, then mixed. `seed` prevents forged collisions. That
 * would not hold with more bytes at a time, since a change of the highest bit passes a multiplication unchanged.
 */
export function hashBytes(bytes: DataView, start: number, end: number, seed: number): number {
  let hash = seed
  let p = start
  for (; p + 2 <= end; p += 2) hash = Math.imul(hash ^ bytes.getUint16(p, true), 0x01000193) ^ (hash >>> 15)
  // With a mark, since a last byte of 0 differs from none.
  if (p < end) hash = Math.imul(hash ^ bytes.getUint8(p) ^ 0x10000, 0x01000193) ^ (hash >>> 15)
  hash = Math.imul(hash ^ (hash >>> 16), 0x7feb352d)
  return (hash ^ (hash >>> 15)) | 0
}

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
