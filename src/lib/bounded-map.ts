/** A Map with a maximum number of entries. A new entry replaces the oldest one. */
export class BoundedMap<K, V> extends Map<K, V> {
  readonly #most: number

  constructor(most: number) {
    super()
    this.#most = most
  }

  override set(key: K, value: V): this {
    if (this.size >= this.#most && !this.has(key)) this.delete(this.keys().next().value!)
    return super.set(key, value)
  }
}
