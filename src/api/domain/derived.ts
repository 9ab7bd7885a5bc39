/**
 * What follows from something that never changes, and that comes out of the store as the same object for a while: kept
 * as long as that is.
 */
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
