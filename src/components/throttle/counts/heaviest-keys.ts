/** What is known of the events of a key. */
export interface HeavyKey {
  readonly name: string
  /** Events that were counted since the key is followed. */
  counted: number
  /** How many there may have been before, at most. */
  missed: number
  /** `counted`, of which older events weigh less. */
  weight: number
  /** For readers: what of `counted` was shown as events of other keys. */
  shown: number
  /** The key is followed until this is false again, however light it is. */
  isKept: boolean
}

/**
 * The heaviest of any number of keys, in bounded memory: Space-Saving, with counts that are added many at a time.
 * A key that is followed had at least `counted` and at most `counted + missed` events, any other at most `floor`.
 */
export class HeaviestKeys {
  /** The most events that a key that is not followed can have had. */
  floor = 0
  readonly #capacity: number
  #keys = new Map<string, HeavyKey>()

  /** `capacity`: keys that are followed, and more between calls of `trim`. */
  constructor(capacity: number) {
    this.#capacity = capacity
  }

  get keys(): Iterable<HeavyKey> {
    return this.#keys.values()
  }

  add(name: string, events: number): void {
    const key = this.#keys.get(name)
    if (key) {
      key.counted += events
      key.weight += events
    } else this.#keys.set(name, { name, counted: events, missed: this.floor, weight: events, shown: 0, isKept: false })
  }

  /** Follows only the heaviest keys from here on. Call after a number of additions. */
  trim(): void {
    if (this.#keys.size <= this.#capacity) return
    const rank = (key: HeavyKey) => (key.isKept ? Number.POSITIVE_INFINITY : key.counted + key.missed)
    const sorted = [...this.#keys.values()].map(key => ({ key, rank: rank(key) })).sort((a, b) => b.rank - a.rank)
    this.floor = Math.max(this.floor, sorted[this.#capacity]!.rank)
    this.#keys = new Map(sorted.slice(0, this.#capacity).map(({ key }) => [key.name, key]))
  }

  /** Makes the weights of all events so far smaller by this factor. */
  age(factor: number): void {
    for (const key of this.#keys.values()) key.weight *= factor
  }
}
