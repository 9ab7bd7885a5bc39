/** Caches values derived from immutable objects, such as those that the store returns, as long as the objects exist. */
export class Derived<R extends object, T> {
  readonly #known = new WeakMap<R, T>()
  readonly #derive: (from: R) => T

  constructor(derive: (from: R) => T) {
    this.#derive = derive
  }

  of(from: R): T {
    let known = this.#known.get(from)
    if (known === undefined) {
      known = this.#derive(from)
      this.#known.set(from, known)
    }
    return known
  }
}
