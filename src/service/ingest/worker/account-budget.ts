import type { Logger } from 'pino'
import type { RequestPool } from '../../../engine/flow/delivery/request-slots.js'
import { LogLimit } from '../../../lib/log-limit.js'
import type { Clock } from '../../../lib/time.js'
import { formatSize } from '../../../lib/units.js'
import type { BudgetFigures } from '../process/messages.js'

interface RequestBounds {
  /** Maximum requests. The first request of each destination does not count. */
  readonly requests: number
  /**
   * Maximum bytes of all requests. A request that begins below this limit may exceed it. Above half of the limit, only
   * the first request of a destination may begin.
   */
  readonly bytes: number
}

/**
 * Limits the number of requests of one account to its receivers, and the memory of their bodies. Each destination that
 * sends an event has its own copy of the event. The first request of a destination is limited by memory only, so
 * receivers that do not answer do not block other destinations of the account.
 */
export class AccountRequests implements RequestPool {
  readonly #most: RequestBounds
  readonly #full: () => void
  /** Functions that wake waiting destinations, the longest waiting first. */
  readonly #waiting = new Set<() => void>()
  #requests = 0
  bytes = 0

  /** `full` is called when a destination begins to wait. */
  constructor(most: RequestBounds, full: () => void) {
    this.#most = most
    this.#full = full
  }

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

const MOST_REQUESTS = { requests: 256, bytes: 256 * 1024 * 1024 }

interface Options {
  readonly account: string
  readonly log: Logger
  readonly clock: Clock
}

/** Limits the requests of all pipelines of one account to receivers. */
export class AccountBudget {
  readonly requests: AccountRequests
  readonly #options: Options
  readonly #limit: LogLimit

  constructor(options: Options) {
    this.#options = options
    this.#limit = new LogLimit(options.clock)
    this.requests = new AccountRequests(MOST_REQUESTS, () => this.#reportFull())
  }

  figures(): BudgetFigures {
    return { requestBytes: this.requests.bytes, waiting: this.requests.waiting }
  }

  #reportFull(): void {
    const { account, log } = this.#options
    const more = this.#limit.next('requests')
    if (more)
      log.warn(
        { code: 'SLUICE_ACCOUNT_REQUESTS_FULL', account, max: formatSize(MOST_REQUESTS.bytes), ...more },
        'destinations of an account wait because their requests take too much memory. Find the receivers that do not answer (sluice_delivery_requests_in_flight), or send each event to fewer destinations',
      )
  }
}
