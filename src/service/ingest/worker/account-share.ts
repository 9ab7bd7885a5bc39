import type { Logger } from 'pino'
import { LogLimit } from '../../../lib/log-limit.js'
import type { Clock } from '../../../lib/time.js'
import { formatSize } from '../../../lib/units.js'
import type { ShareFigures } from '../process/messages.js'
import { AccountKeys } from './account-keys.js'
import { AccountRequests } from './account-requests.js'

/** Requests of one account to its receivers. */
const MOST_REQUESTS = { requests: 256, bytes: 256 * 1024 * 1024 }
/** Idempotency keys of one account in memory. */
const MOST_KEYS = 262_144

interface Options {
  readonly account: string
  readonly log: Logger
  readonly clock: Clock
}

/** What the pipelines of one account share beside the disk: requests to receivers, and idempotency keys. */
export class AccountShare {
  readonly keys: AccountKeys
  readonly requests: AccountRequests
  readonly #options: Options
  readonly #limit: LogLimit
  #forgotten = 0

  constructor(options: Options) {
    this.#options = options
    this.#limit = new LogLimit(options.clock)
    this.keys = new AccountKeys(MOST_KEYS, forgotten => this.#reportForgotten(forgotten))
    this.requests = new AccountRequests(MOST_REQUESTS, () => this.#reportFull())
  }

  figures(): ShareFigures {
    const { keys, requests } = this
    return {
      keys: keys.size,
      forgottenKeys: this.#forgotten,
      requestBytes: requests.bytes,
      waiting: requests.waiting,
    }
  }

  #reportFull(): void {
    const { account, log } = this.#options
    const more = this.#limit.next('requests')
    if (more)
      log.warn(
        { code: 'SLUICE_ACCOUNT_REQUESTS_FULL', account, max: formatSize(MOST_REQUESTS.bytes), ...more },
        'destinations of an account wait because its requests to receivers take too much memory; find out which receivers do not answer (sluice_delivery_requests_in_flight), or use fewer destinations for each event',
      )
  }

  #reportForgotten(forgotten: number): void {
    const { account, log } = this.#options
    this.#forgotten += forgotten
    const more = this.#limit.next('keys')
    if (more)
      log.warn(
        { code: 'SLUICE_KEYS_FORGOTTEN', account, forgotten, max: MOST_KEYS, ...more },
        'forgot the oldest idempotency keys of an account because its pipelines have too many; a request that is repeated after a long time can be taken twice. Use fewer keys: one for each request with many events',
      )
  }
}
