/**
 * A Map that can remove its oldest entry. Keeps one iterator, because a new iterator would step over all entries that
 * were deleted since the Map last grew.
 */
export class QueueMap<K, V> extends Map<K, V> {
  #entries = this.entries()

  /** Removes and returns the oldest entry; undefined if there is none. */
  shift(): [K, V] | undefined {
    let next = this.#entries.next()
    if (next.done) {
      this.#entries = this.entries()
      next = this.#entries.next()
    }
    if (next.done) return undefined
    this.delete(next.value[0])
    return next.value
  }
}

/** A Map with a maximum number of entries. If it is full, a new entry replaces the oldest one. */
export class BoundedMap<K, V> extends QueueMap<K, V> {
  readonly #most: number

  constructor(most: number) {
    super()
    this.#most = most
  }

  override set(key: K, value: V): this {
    if (this.size >= this.#most && !this.has(key)) this.shift()
    return super.set(key, value)
  }
}
