import type { ComponentMetrics } from '../../core/component.js'
import { Busy, showUtilization } from '../busy.js'

/** Requests that several destinations may have under way together. */
export interface RequestPool {
  /** Whether another request may begin; `first`: the only one of its destination. */
  hasRoom(first: boolean): boolean
  begin(first: boolean, bytes: number): void
  end(first: boolean, bytes: number): void
  /** Calls `again` once there is room for the first request of a destination. */
  wait(again: () => void): void
}

export interface SlotsContext {
  readonly requests?: RequestPool | undefined
  readonly metrics: Pick<ComponentMetrics, 'gauge'>
}

/**
 * The requests under way of one destination. More than the first may begin only while the pool has room for them. A
 * destination with a request under way checks again when that one ends, any other when the pool has room.
 */
export class RequestSlots {
  readonly #max: number
  readonly #pool: RequestPool | undefined
  readonly #again: () => void
  /** While as many requests are under way as may be. */
  readonly #busy = new Busy()
  #running = 0
  #waits = false

  /** `again` is called when a request may begin for which there was no room. */
  constructor(max: number, context: SlotsContext, again: () => void) {
    this.#max = max
    this.#pool = context.requests
    this.#again = again
    showUtilization(context.metrics, this.#busy)
  }

  get idle(): boolean {
    return this.#running === 0
  }

  get free(): boolean {
    return this.#running < this.#max && (this.#pool?.hasRoom(this.idle) ?? true)
  }

  /** Whether a request may begin. If not, and nothing is under way, it waits for room. */
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

  /** Returns what ends the request. */
  begin(bytes: number): () => void {
    const first = this.idle
    if (++this.#running === this.#max) this.#busy.begin()
    this.#pool?.begin(first, bytes)
    return () => {
      if (this.#running-- === this.#max) this.#busy.end()
      this.#pool?.end(first, bytes)
    }
  }
}
