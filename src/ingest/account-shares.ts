import type { Logger } from 'pino'
import type { Metrics } from '../engine/metrics.js'
import type { RequestPool } from '../engine/request-slots.js'
import { FairTurns } from '../lib/fair-turns.js'
import { LogLimit } from '../lib/log-limit.js'
import type { Clock } from '../lib/time.js'
import { PORTION_BYTES } from '../sources/http/frames.js'
import { AccountKeys } from './account-keys.js'

/** Requests of one account to its receivers, beside the first one of each destination. */
const MOST_REQUESTS = 256
/** Idempotency keys of one account in memory. */
const MOST_KEYS = 262_144

/** What the pipelines of one account share. */
export interface AccountShare {
  readonly keys: AccountKeys
  readonly requests: RequestPool
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
        requests: new Requests(MOST_REQUESTS),
        turn: bytes => this.#turns.take(account, bytes),
      }
      this.#accounts.set(account, share)
    }
    return share
  }

  #reportForgotten(account: string, forgotten: number): void {
    this.#forgotten.value += forgotten
    const more = this.#limit.next(account)
    if (more)
      this.#log.warn(
        { code: 'SLUICE_KEYS_FORGOTTEN', account, forgotten, max: MOST_KEYS, ...more },
        'forgot the oldest idempotency keys of an account because its pipelines have too many; a request that is repeated after a long time can be taken twice. Use fewer keys: one for each request with many events',
      )
  }
}

class Requests implements RequestPool {
  readonly #most: number
  #used = 0

  constructor(most: number) {
    this.#most = most
  }

  hasRoom(): boolean {
    return this.#used < this.#most
  }

  count(requests: 1 | -1): void {
    this.#used += requests
  }
}
