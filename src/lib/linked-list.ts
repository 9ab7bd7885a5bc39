/** An item that can be in one list at a time. The list manages its links. */
export interface Linked<T> {
  previous?: T | undefined
  next?: T | undefined
  list?: unknown
}

/**
 * Items in the order in which they were added. An item can also be added before another item. Adding and deleting take
 * constant time.
 *
 * A Set or Map would keep deleted items in memory, because V8 replaces its table every few changes, and the old table
 * refers to the new one. Once a table is in the old generation, the items of all later tables stay in memory until the
 * next full collection. A deleted item of this list keeps no links.
 */
export class LinkedList<T extends Linked<T>> {
  #first: T | undefined
  #last: T | undefined
  #size = 0

  get size(): number {
    return this.#size
  }

  get first(): T | undefined {
    return this.#first
  }

  has(item: T): boolean {
    return item.list === this
  }

  /** Adds an item before `next`, or at the end. The item must not be in a list. */
  add(item: T, next?: T): void {
    const previous = next ? next.previous : this.#last
    item.list = this
    item.previous = previous
    item.next = next
    if (previous) previous.next = item
    else this.#first = item
    if (next) next.previous = item
    else this.#last = item
    this.#size++
  }

  /** Returns false if the item was not in this list. */
  delete(item: T): boolean {
    if (item.list !== this) return false
    const { previous, next } = item
    if (previous) previous.next = next
    else this.#first = next
    if (next) next.previous = previous
    else this.#last = previous
    item.list = item.previous = item.next = undefined
    this.#size--
    return true
  }

  clear(): void {
    while (this.#first) this.delete(this.#first)
  }

  /** Items may be deleted during the iteration. */
  *[Symbol.iterator](): Generator<T, void> {
    for (let item = this.#first; item; ) {
      const { next } = item
      yield item
      item = next
    }
  }
}
