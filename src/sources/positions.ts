import { type Linked, LinkedList } from '../lib/linked-list.js'

interface Waiting<P> extends Linked<Waiting<P>> {
  readonly position: P
  settled: boolean
}

/**
 * Positions whose batches are settled in any order and committed in order: what is committed is the position behind
 * which nothing is unsettled. One that is never settled stops it.
 */
export class Positions<P> {
  #committed: P
  readonly #waiting = new LinkedList<Waiting<P>>()
  readonly #onCommit: () => void

  constructor(start: P, onCommit: () => void) {
    this.#committed = start
    this.#onCommit = onCommit
  }

  get committed(): P {
    return this.#committed
  }

  /** Whether something added was not settled yet. */
  get unsettled(): boolean {
    return this.#waiting.size > 0
  }

  /** The next position; call what it returns when everything up to there is settled. */
  add(position: P): () => void {
    const waiting: Waiting<P> = { position, settled: false }
    this.#waiting.add(waiting)
    return () => {
      waiting.settled = true
      this.#commit()
    }
  }

  #commit(): void {
    const waiting = this.#waiting
    if (!waiting.first?.settled) return
    for (let { first } = waiting; first?.settled; { first } = waiting) {
      this.#committed = first.position
      waiting.delete(first)
    }
    this.#onCommit()
  }
}
