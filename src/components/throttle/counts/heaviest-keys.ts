export interface HeavyKey {
  readonly name: string
  /** Events counted since the key was added. */
  counted: number
  /** Maximum number of events before that. */
  missed: number
  /** Like `counted`, but older events have less weight. */
  weight: number
  /** Set by users of this class: the part of `counted` that they have shown as events of other keys. */
  shown: number
  /** While true, the key is followed even if its weight is small. */
  isKept: boolean
}

/**
 * Finds the keys with the most events among any number of keys, in bounded memory (Space-Saving). One call can add many
 * events. Followed keys had between `counted` and `counted + missed` events; others at most `floor`.
 */
export class HeaviestKeys {
  /** Maximum number of events of a key that is not followed. */
  floor = 0
  readonly #capacity: number
  #keys = new Map<string, HeavyKey>()

  /** `capacity`: maximum number of keys that are followed after `trim`. */
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

  /** Continues to follow only the heaviest keys. Call after a number of additions. */
  trim(): void {
    if (this.#keys.size <= this.#capacity) return
    const rank = (key: HeavyKey) => (key.isKept ? Number.POSITIVE_INFINITY : key.counted + key.missed)
    const sorted = [...this.#keys.values()].map(key => ({ key, rank: rank(key) })).sort((a, b) => b.rank - a.rank)
    this.floor = Math.max(this.floor, sorted[this.#capacity]!.rank)
    this.#keys = new Map(sorted.slice(0, this.#capacity).map(({ key }) => [key.name, key]))
  }

  age(factor: number): void {
    for (const key of this.#keys.values()) key.weight *= factor
  }
}
