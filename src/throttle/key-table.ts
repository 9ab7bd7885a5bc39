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
