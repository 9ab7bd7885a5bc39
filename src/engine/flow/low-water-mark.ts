import { type Linked, LinkedList } from '../../lib/linked-list.js'

interface Passed<P> extends Linked<Passed<P>> {
  readonly position: P
  isSettled: boolean
  /** If the range is settled only in part: the position where the settled part ends. */
  reached: P | undefined
}

/** Tracks positions that are settled in any order. All positions up to the mark are settled, but not the next one. */
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

  get unsettled(): boolean {
    return this.#waiting.size > 0
  }

  /**
   * Adds the next position. Call the returned function when everything between the previous position and `position` is
   * settled. If only the first part of this range will be settled, call the function with the end of that part.
   */
  add(position: P): (reached?: P) => void {
    const passed: Passed<P> = { position, isSettled: false, reached: undefined }
    this.#waiting.add(passed)
    return reached => {
      passed.isSettled = reached === undefined
      passed.reached = reached
      this.#move()
    }
  }

  /** The settled ranges after the mark. A range begins after the position `before` and ends with `last`. */
  ahead(): [before: P, last: P][] {
    const ranges: [P, P][] = []
    let range: [P, P] | undefined
    let before = this.#mark
    for (const { position, isSettled } of this.#waiting) {
      if (!isSettled) range = undefined
      else if (range) range[1] = position
      else ranges.push((range = [before, position]))
      before = position
    }
    return ranges
  }

  #move(): void {
    const waiting = this.#waiting
    if (!waiting.first?.isSettled && waiting.first?.reached === undefined) return
    for (let { first } = waiting; first?.isSettled; { first } = waiting) {
      this.#mark = first.position
      waiting.delete(first)
    }
    this.#mark = waiting.first?.reached ?? this.#mark
    this.#moved()
  }
}
