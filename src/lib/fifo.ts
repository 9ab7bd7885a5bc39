/** A queue: push at the end, take from the front, both in constant time on average. */
export class Fifo<T> {
  #items: (T | undefined)[] = []
  #from = 0

  get length(): number {
    return this.#items.length - this.#from
  }

  get first(): T | undefined {
    return this.#items[this.#from]
  }

  push(item: T): void {
    this.#items.push(item)
  }

  shift(): T | undefined {
    const item = this.#items[this.#from]
    if (this.length === 0) return undefined
    this.#items[this.#from++] = undefined
    if (this.#from > 64 && this.#from * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#from)
      this.#from = 0
    }
    return item
  }

  clear(): void {
    this.#items = []
    this.#from = 0
  }
}
