import { showUtilization, Utilization } from '../utilization.js'

/** Limits the concurrent requests of several destinations in total. */
export interface RequestPool {
  /** Whether another request may start. `first`: the destination of this request has no other request. */
  hasRoom(first: boolean): boolean
  begin(first: boolean, bytes: number): void
  end(first: boolean, bytes: number): void
  /** Calls `again` when a destination without requests may start one. */
  wait(again: () => void): void
}

/**
 * The concurrent requests of one destination. If the pool has no room, a destination with requests in flight checks the
 * pool again when one of these requests ends. A destination without requests waits until the pool has room.
 */
export class RequestSlots {
  readonly #max: () => number
  readonly #pool: RequestPool | undefined
  readonly #again: () => void
  /** Busy while the maximum number of requests is running. */
  readonly #busy = new Utilization()
  #running = 0
  #isFull = false
  #waits = false

  /** `max`: the current limit. `again` is called when a waiting request may start. */
  constructor(
    max: () => number,
    { requests, metrics }: { requests?: RequestPool | undefined; metrics: Parameters<typeof showUtilization>[0] },
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

  /** Whether a request may start. If not, and if no other request of the destination runs, waits for the pool. */
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

  /** Starts a request. Call the result when the request ends. */
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
