import { type Linked, LinkedList } from '../lib/linked-list.js'

interface Passed<P> extends Linked<Passed<P>> {
  readonly position: P
  isSettled: boolean
}

/**
 * Positions that are settled in any order, and the mark: the last one before which nothing is unsettled. One that is
 * never settled stops it.
 */
export class LowWaterMark<P> {
  #mark: P
  readonly #waiting = new LinkedList<Passed<P>>()
  readonly #moved: () => void

  /** `moved` is called when the mark has changed. */
  constructor(start: P, moved: () => void = () => {}) {
    this.#mark = start
    this.#moved = moved
  }

  get mark(): P {
    return this.#mark
  }

  /** Whether something added was not settled yet. */
  get unsettled(): boolean {
    return this.#waiting.size > 0
  }

  /** The next position. Call what it returns when everything between the one before it and this one is settled. */
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
