interface Waiting<P> {
  readonly position: P
  settled: boolean
  next: Waiting<P> | undefined
}

/**
 * Positions whose batches are settled in any order and committed in order: what is committed is the position behind
 * which nothing is unsettled. One that is never settled stops it.
 */
export class Positions<P> {
  #committed: P
  #first: Waiting<P> | undefined
  #last: Waiting<P> | undefined
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
    return this.#first !== undefined
  }

  /** The next position; call what it returns when everything up to there is settled. */
  add(position: P): () => void {
    const waiting: Waiting<P> = { position, settled: false, next: undefined }
    if (this.#last) this.#last.next = waiting
    else this.#first = waiting
    this.#last = waiting
    return () => {
      waiting.settled = true
      this.#commit()
    }
  }

  #commit(): void {
    let first = this.#first
    if (!first?.settled) return
    while (first?.settled) {
      const next: Waiting<P> | undefined = first.next
      this.#committed = first.position
      // What was committed must lead nowhere: once it is old, all that followed would stay in memory with it.
      first.next = undefined
      first = next
    }
    this.#first = first
    if (!first) this.#last = undefined
    this.#onCommit()
  }
}
