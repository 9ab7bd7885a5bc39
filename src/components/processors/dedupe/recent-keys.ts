import { type Key, KeyTable, randomSeed } from '../../throttle/key-table.js'

const NONE = -1
/** Keys that a table has room for beyond twice those that are remembered. */
const SPARE = 64

/** What is remembered of each key, by its id in the table. */
class Columns {
  /** When its window began. */
  readonly since: Float64Array
  /** Duplicates in it. */
  readonly counts: Float64Array
  /** Its neighbours in the order of `since`. */
  readonly older: Int32Array
  readonly newer: Int32Array
  readonly isRemembered: Uint8Array
  /** Names of keys, for summaries. */
  readonly names: (string | undefined)[]

  constructor(size: number, names: (string | undefined)[] = []) {
    this.names = names
    this.since = new Float64Array(size)
    this.counts = new Float64Array(size)
    this.older = new Int32Array(size)
    this.newer = new Int32Array(size)
    this.isRemembered = new Uint8Array(size)
  }

  grown(): Columns {
    const larger = new Columns(this.since.length * 2, this.names)
    larger.since.set(this.since)
    larger.counts.set(this.counts)
    larger.older.set(this.older)
    larger.newer.set(this.newer)
    larger.isRemembered.set(this.isRemembered)
    return larger
  }
}

/**
 * The keys whose windows began last, in this order. A lookup allocates nothing. Forgotten keys stay in the table until
 * there are as many as remembered ones, since the table cannot remove them; it is then replaced by a new one.
 */
export class RecentKeys {
  /** Of the hash of keys. */
  readonly seed = randomSeed()
  readonly #most: number
  #table = new KeyTable()
  #columns = new Columns(64)
  #oldest = NONE
  #newest = NONE
  #size = 0

  constructor(most: number) {
    this.#most = most
  }

  get size(): number {
    return this.#size
  }

  /** The id of the key whose window began longest ago; -1 if none is remembered. */
  get oldest(): number {
    return this.#oldest
  }

  get isFull(): boolean {
    return this.#size >= this.#most
  }

  /** The id of a key that is remembered, or -1. Ids are valid until the next `begin`. */
  find(key: Key): number {
    const id = this.#table.find(key)
    return id >= 0 && this.#columns.isRemembered[id] === 1 ? id : NONE
  }

  since(id: number): number {
    return this.#columns.since[id]!
  }

  count(id: number): number {
    return this.#columns.counts[id]!
  }

  name(id: number): string | undefined {
    return this.#columns.names[id]
  }

  /** Counts a duplicate. Returns how many there are. */
  add(id: number): number {
    return ++this.#columns.counts[id]!
  }

  setName(id: number, name: string): void {
    this.#columns.names[id] = name
  }

  clearCount(id: number): void {
    this.#columns.counts[id] = 0
    this.#columns.names[id] = undefined
  }

  /** Begins a window of a key without duplicates. There must be room for one more, if it is not remembered. */
  begin(key: Key, now: number): void {
    let id = this.#table.find(key)
    if (id >= 0 && this.#columns.isRemembered[id] === 1) this.forget(id)
    else if (id < 0) {
      if (this.#table.size >= this.#most * 2 + SPARE) this.#renew()
      id = this.#table.add(key)
      if (id >= this.#columns.since.length) this.#columns = this.#columns.grown()
    }
    this.#append(id, now)
  }

  #append(id: number, since: number): void {
    const { since: times, counts, older, newer, isRemembered, names } = this.#columns
    times[id] = since
    counts[id] = 0
    names[id] = undefined
    isRemembered[id] = 1
    older[id] = this.#newest
    newer[id] = NONE
    if (this.#newest === NONE) this.#oldest = id
    else newer[this.#newest] = id
    this.#newest = id
    this.#size++
  }

  forget(id: number): void {
    const { older, newer, isRemembered, names } = this.#columns
    const before = older[id]!
    const after = newer[id]!
    if (before === NONE) this.#oldest = after
    else newer[before] = after
    if (after === NONE) this.#newest = before
    else older[after] = before
    isRemembered[id] = 0
    names[id] = undefined
    this.#size--
  }

  /** The ids of all keys, from the oldest. */
  *[Symbol.iterator](): Generator<number, void> {
    for (let id = this.#oldest; id !== NONE; id = this.#columns.newer[id]!) yield id
  }

  /** Makes the table anew, of the keys that are remembered. */
  #renew(): void {
    const [table, columns, ids] = [this.#table, this.#columns, [...this]]
    this.#table = new KeyTable(this.#size, table.keyBytes)
    this.#columns = new Columns(columns.since.length)
    this.#oldest = NONE
    this.#newest = NONE
    this.#size = 0
    for (const old of ids) {
      const id = this.#table.take(table, old)
      this.#append(id, columns.since[old]!)
      this.#columns.counts[id] = columns.counts[old]!
      this.#columns.names[id] = columns.names[old]
    }
  }
}
