/** Requests that several destinations may have under way together, beside the first one of each. */
export interface RequestPool {
  hasRoom(): boolean
  /** Another request is under way, or `-1`: one is not any more. */
  count(requests: 1 | -1): void
}

/**
 * The requests under way of one destination. The first may always begin, so that no destination waits for another; more
 * may begin only while the pool has room. A destination that waits for room therefore has a request under way, and checks
 * again when that one ends.
 */
export class RequestSlots {
  readonly #max: number
  readonly #pool: RequestPool | undefined
  #running = 0

  constructor(max: number, pool: RequestPool | undefined) {
    this.#max = max
    this.#pool = pool
  }

  get idle(): boolean {
    return this.#running === 0
  }

  get free(): boolean {
    return this.idle || (this.#running < this.#max && (this.#pool?.hasRoom() ?? true))
  }

  begin(): void {
    if (++this.#running > 1) this.#pool?.count(1)
  }

  end(): void {
    if (--this.#running > 0) this.#pool?.count(-1)
  }
}
