import type { RequestPool } from '../../../engine/flow/delivery/request-slots.js'

export interface RequestBounds {
  /** Requests beside the first one of each destination. */
  readonly requests: number
  /** Bytes of all. A request that begins below it may exceed it. Half of it is kept for first requests. */
  readonly bytes: number
}

/**
 * Bounds the requests to receivers of one account: their number, and the memory of their bodies, since an event is
 * copied for each destination that sends it. First requests are bounded by memory alone, so that receivers that do not answer
 * leave the other destinations of the account theirs.
 */
export class AccountRequests implements RequestPool {
  readonly #most: RequestBounds
  readonly #full: () => void
  /** Those that wait, the longest waiting first. */
  readonly #waiting = new Set<() => void>()
  #requests = 0
  bytes = 0

  /** `full` is called when a destination begins to wait. */
  constructor(most: RequestBounds, full: () => void) {
    this.#most = most
    this.#full = full
  }

  /** Destinations that wait. */
  get waiting(): number {
    return this.#waiting.size
  }

  hasRoom(first: boolean): boolean {
    const { requests, bytes } = this.#most
    return first ? this.bytes < bytes : this.#requests < requests && this.bytes < bytes / 2
  }

  begin(first: boolean, bytes: number): void {
    if (!first) this.#requests++
    this.bytes += bytes
  }

  end(first: boolean, bytes: number): void {
    if (!first) this.#requests--
    this.bytes -= bytes
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
