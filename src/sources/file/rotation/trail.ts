import type { Fingerprint } from '../identity.js'

/** A place in a file, and the fingerprint of the bytes before it. */
export interface Mark {
  readonly offset: number
  readonly tail: Fingerprint
}

/**
 * Some places up to which a file was read, each at least twice as far as the one before. By them, a file that is shorter
 * than what was read is recognized as a copy of its beginning.
 */
export class Trail {
  readonly #marks: Mark[] = []

  add(offset: number, tail: Fingerprint): void {
    const last = this.#marks.at(-1)
    if (!last || offset >= 2 * last.offset) this.#marks.push({ offset, tail })
  }

  /** The last of these places in the first `size` bytes. */
  within(size: number): Mark | undefined {
    return this.#marks.findLast(({ offset }) => offset <= size)
  }
}
