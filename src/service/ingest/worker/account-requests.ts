import type { RequestPool } from '../../../engine/flow/delivery/request-slots.js'
import type { BudgetFigures } from '../process/messages.js'

interface RequestBounds {
  /** Maximum requests. The first request of each destination does not count. */
  readonly requests: number
  /**
   * Maximum bytes of all requests. A request that begins below this limit may exceed the limit. Above half of the
   * limit, a destination may begin only its first request.
   */
  readonly bytes: number
}

export const MOST_REQUESTS: RequestBounds = { requests: 256, bytes: 256 * 1024 * 1024 }

/**
 * Limits how many requests one account sends to its receivers, and the memory of their bodies. Each destination that
 * sends an event has its own copy of the event. The first request of a destination is limited by memory only, so
 * receivers that do not answer do not block other destinations of the account.
 */
export class AccountRequests implements RequestPool {
  readonly #most: RequestBounds
  readonly #full: () => void
  /** Functions that wake waiting destinations, in the order in which the destinations began to wait. */
  readonly #waiting = new Set<() => void>()
  #requests = 0
  #bytes = 0

  /** `full` is called when a destination begins to wait. */
  constructor(most: RequestBounds, full: () => void) {
    this.#most = most
    this.#full = full
  }

  figures(): BudgetFigures {
    return { requestBytes: this.#bytes, waiting: this.#waiting.size }
  }

  hasRoom(first: boolean): boolean {
    const { requests, bytes } = this.#most
    return first ? this.#bytes < bytes : this.#requests < requests && this.#bytes < bytes / 2
  }

  begin(first: boolean, bytes: number): void {
    if (!first) this.#requests++
    this.#bytes += bytes
  }

  end(first: boolean, bytes: number): void {
    if (!first) this.#requests--
    this.#bytes -= bytes
    for (const again of this.#waiting) {
      if (!this.hasRoom(true)) return
      this.#waiting.delete(again)
      again()
    }
  }

  wait(again: () => void): void {
    this.#waiting.add(again)
    this.#full()
  }
}
