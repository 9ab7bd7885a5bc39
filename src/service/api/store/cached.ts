import { Recent } from './recent.js'
import type { Store, TableName } from './store.js'

/** Caches values until one of the tables changes. A value that was being read during a change is not cached. */
export class Cached<T> {
  readonly #most: number
  #known: Recent<T>
  readonly #check: () => void
  #version = 0

  /** `most` is the number of entries in each generation. */
  constructor(store: Pick<Store, 'watch'>, tables: readonly TableName[], most: number) {
    this.#most = most
    this.#known = new Recent(most)
    this.#check = store.watch(tables, () => {
      this.#known = new Recent(this.#most)
      this.#version++
    })
  }

  /** How often the cache was emptied. While this number stays the same, values made from the cache are valid. */
  get version(): number {
    this.#check()
    return this.#version
  }

  known(key: string): { readonly value: T } | undefined {
    this.#check()
    return this.#known.get(key)
  }

  /** Returns the cached value. If there is none, calls `read` and caches the result, unless the result is undefined. */
  async read(key: string, read: () => Promise<T | undefined>): Promise<T | undefined> {
    this.#check()
    const known = this.#known
    const found = known.get(key)
    if (found) return found.value
    const value = await read()
    if (value !== undefined) known.set(key, value, 1)
    return value
  }
}
