import { randomInt } from 'node:crypto'
import { resized } from '../../../lib/columns.js'
import type { StateWriter } from '../persist/state-bytes.js'

/** A key: [start, end) of `bytes`. */
export interface Key {
  readonly bytes: DataView
  readonly start: number
  readonly end: number
  readonly hash: number
}

/** Values instead of an id. NONE: not needed. TO_FIND: must be found. ALONE: cannot be found here. */
export const NONE = -1
export const TO_FIND = -2
export const ALONE = -3

/** The keys of many events. Key i is [starts[i], ends[i]) of `bytes`. */
export interface KeyRanges {
  readonly bytes: DataView
  readonly starts: Int32Array
  readonly ends: Int32Array
  readonly hashes: Int32Array
  /** The id of each key, or one of the constants above. */
  readonly ids: Int32Array
  /**
   * Indices of the events whose id was found (`found`) and of those whose id is still missing (`alone`), both in order,
   * and the count of each.
   */
  readonly found: Int32Array
  foundCount: number
  readonly alone: Int32Array
  aloneCount: number
}

/** A table is large if it has at least this many keys, or this many bytes of keys. */
const LARGE = 65_536

/**
 * Maps the bytes of keys to consecutive numbers, in an open-addressing hash table over typed arrays. A lookup allocates
 * nothing and builds no string. A key needs its own bytes and about 20 more bytes. Only `keep` removes keys.
 */
export class KeyTable {
  /**
   * Indexed by hash: the id of a key plus one, or 0 if the place is free. At most half of the places are used; in a
   * large table, at most 5/8 of the places.
   */
  #places: Int32Array
  #hashes: Int32Array
  /** Indexed by id: where the key begins in `#keys`. The key ends where the next key begins. */
  #offsets: Uint32Array
  #keys: Buffer
  #view: DataView
  #size = 0

  readonly #expected: number

  /**
   * Has room for `keys` keys with `bytes` bytes in total, and a few more. `expected`: upper estimate of the number of
   * keys. Near this number, the table grows to exactly this number, and then in smaller steps.
   */
  constructor(keys = 0, bytes = 0, expected = Number.POSITIVE_INFINITY) {
    this.#expected = expected
    let places = 16
    while (places < keys * 2) places *= 2
    const capacity = Math.max(8, Math.ceil(keys * 1.125))
    this.#places = new Int32Array(places)
    this.#hashes = new Int32Array(capacity)
    this.#offsets = new Uint32Array(capacity + 1)
    this.#keys = Buffer.alloc(Math.max(128, Math.ceil(bytes * 1.125)))
    this.#view = dataViewOf(this.#keys)
  }

  get size(): number {
    return this.#size
  }

  /** Number of keys that fit before the table has to grow. */
  get capacity(): number {
    return this.#hashes.length
  }

  get keyBytes(): number {
    return this.#offsets[this.#size]!
  }

  /** The id of a key, or -1. */
  find({ bytes, start, end, hash }: Key): number {
    const mask = this.#places.length - 1
    for (let place = hash & mask; ; place = (place + 1) & mask) {
      const id = this.#places[place]! - 1
      if (id < 0) return -1
      if (this.#hashes[id] === hash && this.#equals(id, bytes, start, end)) return id
    }
  }

  /** For the first `length` events, finds the ids that are still TO_FIND. */
  findAll(keys: KeyRanges, length: number): void {
    const { bytes, starts, ends, hashes, ids, found, alone } = keys
    const places = this.#places
    const known = this.#hashes
    const mask = places.length - 1
    let [foundCount, aloneCount] = [0, 0]
    for (let i = 0; i < length; i++) {
      const wanted = ids[i]!
      if (wanted >= NONE) continue
      let id = -1
      if (wanted === TO_FIND) {
        const hash = hashes[i]!
        for (let place = hash & mask; ; place = (place + 1) & mask) {
          id = places[place]! - 1
          if (id < 0 || (known[id] === hash && this.#equals(id, bytes, starts[i]!, ends[i]!))) break
        }
      }
      if (id < 0) alone[aloneCount++] = i
      else {
        ids[i] = id
        found[foundCount++] = i
      }
    }
    keys.foundCount = foundCount
    keys.aloneCount = aloneCount
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

  add({ bytes, start, end, hash }: Key): number {
    return this.#add(bytes, start, end, hash)
  }

  #add(bytes: DataView, start: number, end: number, hash: number): number {
    const id = this.#size
    if (id === this.#hashes.length) this.#growColumns()
    const at = this.#offsets[id]!
    const next = at + end - start
    if (next > this.#keys.length) this.#growKeys(next)
    for (let p = start, to = at; p < end; p++) this.#keys[to++] = bytes.getUint8(p)
    this.#offsets[id + 1] = next
    this.#hashes[id] = hash
    this.#size = id + 1
    const most = this.#places.length * (id < LARGE ? 0.5 : 0.625)
    if (this.#size > most) this.#growPlaces()
    else this.#place(id, hash)
    return id
  }

  #place(id: number, hash: number): void {
    const mask = this.#places.length - 1
    let place = hash & mask
    while (this.#places[place] !== 0) place = (place + 1) & mask
    this.#places[place] = id + 1
  }

  #growKeys(atLeast: number): void {
    const { length } = this.#keys
    const larger = Buffer.alloc(Math.max(atLeast, Math.ceil(length * (length < LARGE ? 2 : 1.25))))
    this.#keys.copy(larger)
    this.#keys = larger
    this.#view = dataViewOf(larger)
  }

  #growColumns(): void {
    const { length } = this.#hashes
    const expected = this.#expected
    let capacity = length * 2
    if (length >= expected) capacity = Math.ceil(length * 1.125)
    else if (capacity * 1.5 > expected) capacity = expected
    this.#hashes = resized(this.#hashes, capacity)
    this.#offsets = resized(this.#offsets, capacity + 1)
  }

  #growPlaces(): void {
    this.#places = new Int32Array(this.#places.length * 2)
    for (let id = 0; id < this.#size; id++) this.#place(id, this.#hashes[id]!)
  }

  /**
   * Removes the keys for which `keeps` returns false. `keeps` gets the id of each key and, in `to`, the id that the key
   * gets if it stays.
   */
  keep(keeps: (id: number, to: number) => boolean): void {
    let [kept, at] = [0, 0]
    for (let id = 0; id < this.#size; id++) {
      if (!keeps(id, kept)) continue
      const end = this.#offsets[id + 1]!
      for (let p = this.#offsets[id]!; p < end; p++) this.#keys[at++] = this.#keys[p]!
      this.#hashes[kept] = this.#hashes[id]!
      this.#offsets[++kept] = at
    }
    this.#size = kept
    this.#places.fill(0)
    for (let id = 0; id < kept; id++) this.#place(id, this.#hashes[id]!)
  }

  /** Copies a key from another table. Returns the id of the copy. */
  take(from: KeyTable, id: number): number {
    return this.#add(from.#view, from.#offsets[id]!, from.#offsets[id + 1]!, from.#hashes[id]!)
  }

  write(id: number, to: StateWriter): void {
    to.bytes(this.#keys, this.#offsets[id]!, this.#offsets[id + 1]!)
  }

  /** Valid until keys are added or removed. */
  bytesOf(id: number): Buffer {
    return this.#keys.subarray(this.#offsets[id]!, this.#offsets[id + 1]!)
  }

  key(id: number): string {
    return this.bytesOf(id).toString()
  }
}

export function sameKeys(a: Key, b: Key): boolean {
  if (a.hash !== b.hash || a.end - a.start !== b.end - b.start) return false
  for (let p = a.start, q = b.start; p < a.end; p++, q++) if (a.bytes.getUint8(p) !== b.bytes.getUint8(q)) return false
  return true
}

export function hashedKey(bytes: Uint8Array, seed: number): Key {
  const view = dataViewOf(bytes)
  return { bytes: view, start: 0, end: bytes.length, hash: hashBytes(view, 0, bytes.length, seed) }
}

export function dataViewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
}

/** With a fixed seed, a sender could find keys whose hashes collide. With another seed, these keys do not collide. */
export const randomSeed = (): number => randomInt(2 ** 31)

/**
 * A 32-bit hash of [start, end). Multiplies once for each two bytes, then mixes. A random `seed` prevents forged
 * collisions. If each multiplication took more bytes, a difference in the top bit would stay as it is, so that
 * collisions could be forged.
 */
export function hashBytes(bytes: DataView, start: number, end: number, seed: number): number {
  let hash = seed
  let p = start
  for (; p + 4 <= end; p += 4) {
    const both = bytes.getInt32(p, true)
    hash = Math.imul(hash ^ (both & 0xffff), 0x01000193) ^ (hash >>> 15)
    hash = Math.imul(hash ^ (both >>> 16), 0x01000193) ^ (hash >>> 15)
  }
  for (; p + 2 <= end; p += 2) hash = Math.imul(hash ^ bytes.getUint16(p, true), 0x01000193) ^ (hash >>> 15)
  // The bit 0x10000 shows that a last byte exists, even a 0.
  if (p < end) hash = Math.imul(hash ^ bytes.getUint8(p) ^ 0x10000, 0x01000193) ^ (hash >>> 15)
  hash = Math.imul(hash ^ (hash >>> 16), 0x7feb352d)
  return (hash ^ (hash >>> 15)) | 0
}
