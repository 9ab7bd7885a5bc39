import type { Logger } from 'pino'
import type { Metrics } from '../../engine/measure/metrics.js'
import { PORTION_BYTES } from '../../http/events/frames.js'
import { FairTurns } from '../../lib/fair-turns.js'
import { LogLimit } from '../../lib/log-limit.js'
import type { Clock } from '../../lib/time.js'
import { formatSize } from '../../lib/units.js'
import { AccountKeys } from './account-keys.js'
import { AccountRequests } from './account-requests.js'

/** Requests of one account to its receivers. */
const MOST_REQUESTS = { requests: 256, bytes: 256 * 1024 * 1024 }
/** Idempotency keys of one account in memory. */
const MOST_KEYS = 262_144

/** What the pipelines of one account share. */
export interface AccountShare {
  readonly keys: AccountKeys
  readonly requests: AccountRequests
  readonly turn: (bytes: number) => Promise<void>
}

interface Options {
  readonly log: Logger
  readonly metrics: Metrics
  readonly clock: Clock
}

/** Bounds what the pipelines of each account take together, beside the disk: requests, idempotency keys, processing time. */
export class AccountShares {
  readonly #log: Logger
  readonly #limit: LogLimit
  readonly #turns: FairTurns
  readonly #accounts = new Map<string, AccountShare>()
  readonly #forgotten: { value: number }

  constructor({ log, metrics, clock }: Options) {
    this.#log = log
    this.#limit = new LogLimit(clock)
    this.#turns = new FairTurns(clock, PORTION_BYTES)
    metrics.daemonGauge(
      'sluice_ingest_busy_accounts',
      'Accounts whose requests with events wait for their turn to be processed.',
      () => this.#turns.waiting,
    )
    metrics.daemonGauge(
      'sluice_ingest_idempotency_keys',
      'Idempotency keys of the published pipelines that run, in memory.',
      () => [...this.#accounts.values()].reduce((sum, { keys }) => sum + keys.size, 0),
    )
    metrics.daemonGauge(
      'sluice_ingest_request_bytes',
      'Bytes of the requests to receivers that are under way, of all published pipelines.',
      () => this.#sumOf(({ bytes }) => bytes),
    )
    metrics.daemonGauge(
      'sluice_ingest_waiting_destinations',
      'Destinations of published pipelines that wait because the requests of their account take too much memory.',
      () => this.#sumOf(({ waiting }) => waiting),
    )
    this.#forgotten = metrics.daemonCounter(
      'sluice_ingest_forgotten_idempotency_keys_total',
      'Idempotency keys that were forgotten early because their account had too many.',
      {},
    )
  }

  of(account: string): AccountShare {
    let share = this.#accounts.get(account)
    if (!share) {
      share = {
        keys: new AccountKeys(MOST_KEYS, forgotten => this.#reportForgotten(account, forgotten)),
        requests: new AccountRequests(MOST_REQUESTS, () => this.#reportFull(account)),
        turn: bytes => this.#turns.take(account, bytes),
      }
      this.#accounts.set(account, share)
    }
    return share
  }

  #sumOf(read: (requests: AccountRequests) => number): number {
    return [...this.#accounts.values()].reduce((sum, { requests }) => sum + read(requests), 0)
  }

  #reportFull(account: string): void {
    const more = this.#limit.next(`requests of ${account}`)
    if (more)
      this.#log.warn(
        { code: 'SLUICE_ACCOUNT_REQUESTS_FULL', account, max: formatSize(MOST_REQUESTS.bytes), ...more },
        'destinations of an account wait because its requests to receivers take too much memory; find out which receivers do not answer (sluice_delivery_requests_in_flight), or use fewer destinations for each event',
      )
  }

  #reportForgotten(account: string, forgotten: number): void {
    this.#forgotten.value += forgotten
    const more = this.#limit.next(`keys of ${account}`)
    if (more)
      this.#log.warn(
        { code: 'SLUICE_KEYS_FORGOTTEN', account, forgotten, max: MOST_KEYS, ...more },
        'forgot the oldest idempotency keys of an account because its pipelines have too many; a request that is repeated after a long time can be taken twice. Use fewer keys: one for each request with many events',
      )
  }
}
