/** Something that can be in one list at a time. Its links are the list's business. */
export interface Linked<T> {
  previous?: T | undefined
  next?: T | undefined
  list?: unknown
}

/**
 * Things that come and go all the time, in the order they came. Adding and deleting take constant time.
 *
 * A Set or Map would do, but for the memory: V8 makes another table every few changes, and the table before leads to it.
 * Once such a table is old, everything that was ever in the later ones looks reachable until the next full collection.
 * So nothing that has left a list leads anywhere.
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

  /** Puts it at the end. It must be in no list. */
  add(item: T): void {
    item.list = this
    item.previous = this.#last
    if (this.#last) this.#last.next = item
    else this.#first = item
    this.#last = item
    this.#size++
  }

  /** False: it was not here. */
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

  /** What it gives may be deleted meanwhile. */
  *[Symbol.iterator](): Generator<T, void> {
    for (let item = this.#first; item; ) {
      const { next } = item
      yield item
      item = next
    }
  }
}
