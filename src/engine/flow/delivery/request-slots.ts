import { Busy, showUtilization } from '../busy.js'
import type { DeliveryContext } from './delivery.js'

/** Limits the concurrent requests of several destinations together. */
export interface RequestPool {
  /** Whether another request may start; `first`: it is the only one of its destination. */
  hasRoom(first: boolean): boolean
  begin(first: boolean, bytes: number): void
  end(first: boolean, bytes: number): void
  /** Calls `again` when there is room for the first request of a destination. */
  wait(again: () => void): void
}

/**
 * The concurrent requests of one destination. Requests beyond the first start only if the pool has room. A destination
 * with running requests checks again when one ends, any other when the pool has room.
 */
export class RequestSlots {
  readonly #max: () => number
  readonly #pool: RequestPool | undefined
  readonly #again: () => void
  /** Busy while the maximum number of requests is running. */
  readonly #busy = new Busy()
  #running = 0
  #isFull = false
  #waits = false

  /** `max`: the current limit. `again` is called when there is room for a waiting request. */
  constructor(
    max: () => number,
    { requests, metrics }: Pick<DeliveryContext, 'requests' | 'metrics'>,
    again: () => void,
  ) {
    this.#max = max
    this.#pool = requests
    this.#again = again
    showUtilization(metrics, this.#busy)
  }

  get idle(): boolean {
    return this.#running === 0
  }

  get free(): boolean {
    return this.#running < this.#max() && (this.#pool?.hasRoom(this.idle) ?? true)
  }

  /** Whether a request may start. If not and no request is running, waits for room. */
  freeOrWait(): boolean {
    if (this.free) return true
    if (this.idle && !this.#waits) {
      this.#waits = true
      this.#pool?.wait(() => {
        this.#waits = false
        this.#again()
      })
    }
    return false
  }

  /** Starts a request; call the returned function when it ends. */
  begin(bytes: number): () => void {
    const first = this.idle
    this.#count(1)
    this.#pool?.begin(first, bytes)
    return () => {
      this.#count(-1)
      this.#pool?.end(first, bytes)
    }
  }

  #count(change: number): void {
    this.#running += change
    const isFull = this.#running >= this.#max()
    if (isFull === this.#isFull) return
    this.#isFull = isFull
    if (isFull) this.#busy.begin()
    else this.#busy.end()
  }
}
