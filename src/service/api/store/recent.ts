/**
 * A cache of recently used entries in two generations, young and old. When the young generation is full, it becomes the
 * old one, and the previous old generation is dropped. Using an entry moves it to the young generation.
 */
export class Recent<T> {
  readonly #most: number
  #young = new Map<string, { value: T; weight: number }>()
  #old = new Map<string, { value: T; weight: number }>()
  #weight = 0

  /** `most` is the maximum weight of one generation. */
  constructor(most: number) {
    this.#most = most
  }

  get(key: string): { readonly value: T } | undefined {
    const young = this.#young.get(key)
    if (young) return young
    const old = this.#old.get(key)
    if (old) this.set(key, old.value, old.weight)
    return old
  }

  set(key: string, value: T, weight: number): void {
    this.delete(key)
    if (weight > this.#most) return
    if (this.#weight + weight > this.#most) {
      this.#old = this.#young
      this.#young = new Map()
      this.#weight = 0
    }
    this.#young.set(key, { value, weight })
    this.#weight += weight
  }

  clear(): void {
    this.#young.clear()
    this.#old.clear()
    this.#weight = 0
  }

  delete(key: string): void {
    const young = this.#young.get(key)
    if (young) this.#weight -= young.weight
    this.#young.delete(key)
    this.#old.delete(key)
  }
}
