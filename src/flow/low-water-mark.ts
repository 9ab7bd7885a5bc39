import { type Linked, LinkedList } from '../lib/linked-list.js'

interface Passed<P> extends Linked<Passed<P>> {
  readonly position: P
  isSettled: boolean
}

/** Tracks positions settled in any order. The mark is the last position up to which everything is settled. */
export class LowWaterMark<P> {
  #mark: P
  readonly #waiting = new LinkedList<Passed<P>>()
  readonly #moved: () => void

  /** `moved` is called after the mark has changed. */
  constructor(start: P, moved: () => void = () => {}) {
    this.#mark = start
    this.#moved = moved
  }

  get mark(): P {
    return this.#mark
  }

  /** Whether any position is unsettled. */
  get unsettled(): boolean {
    return this.#waiting.size > 0
  }

  /** Adds the next position. Call the result when everything up to it, from the previous position on, is settled. */
  add(position: P): () => void {
    const passed: Passed<P> = { position, isSettled: false }
    this.#waiting.add(passed)
    return () => {
      passed.isSettled = true
      this.#move()
    }
  }

  #move(): void {
    const waiting = this.#waiting
    if (!waiting.first?.isSettled) return
    for (let { first } = waiting; first?.isSettled; { first } = waiting) {
      this.#mark = first.position
      waiting.delete(first)
    }
    this.#moved()
  }
}
