import { Recent } from './recent.js'
import type { Store, Table } from './store.js'

/** Remembers what was read until one of the tables changes. What was being read during a change is not remembered. */
export class Cached<T> {
  readonly #most: number
  #known: Recent<T>
  /** How often it was emptied: what was made from it under the same number is still as it was. */
  version = 0

  /** `most`: entries of each of the two generations. */
  constructor(store: Pick<Store, 'watch'>, tables: readonly Table[], most: number) {
    this.#most = most
    this.#known = new Recent(most)
    store.watch(tables, () => {
      this.#known = new Recent(this.#most)
      this.version++
    })
  }

  known(key: string): { readonly value: T } | undefined {
    return this.#known.get(key)
  }

  /** What `read` resolves with, or did before; undefined is not remembered. */
  async read(key: string, read: () => Promise<T | undefined>): Promise<T | undefined> {
    const known = this.#known
    const found = known.get(key)
    if (found) return found.value
    const value = await read()
    if (value !== undefined) known.set(key, value, 1)
    return value
  }
}
