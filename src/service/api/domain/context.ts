import type { Logger } from 'pino'
import type { AnyDefinition } from '../../../core/component.js'
import type { Clock } from '../../../lib/time.js'
import { Turns } from '../../../lib/turns.js'
import { type Change, type Entry, type Expected, type Store, StoreError } from '../store/store.js'
import { Derived } from './derived.js'
import type { Page } from './documents.js'
import { ApiError } from './errors.js'
import { Ids } from './ids.js'
import type { PageQuery } from './inputs.js'
import type { Principal } from './keys/principal.js'
import { type Rate, RateLimiter, rateHeaders } from './keys/rate-limiter.js'
import { type AuditRecord, at } from './records.js'

export interface ServiceLimits {
  readonly requestsPerKey: Rate
  /** Attempts with unknown keys from one address. Requests with a valid key are not limited by it. */
  readonly failedTries: Rate
  readonly accounts: number
  /** Per account, as are the next ones. */
  readonly users: number
  readonly serviceAccounts: number
  readonly pipelines: number
  readonly secrets: number
  readonly daemons: number
  /** New daemons that one user or service account may register. */
  readonly newDaemons: Rate
  /** Changes by one user or service account, and by all of an account. */
  readonly changes: Rate
  readonly changesOfAccount: Rate
  readonly keysPerUser: number
  /** Retained revisions per pipeline; the published one is always retained. */
  readonly revisions: number
  readonly configBytes: number
  /** Sources, processors and destinations of one pipeline. */
  readonly components: number
  readonly auditDays: number
}

export const DEFAULT_LIMITS: ServiceLimits = {
  requestsPerKey: { limit: 10_000, windowMs: 10_000 },
  failedTries: { limit: 60, windowMs: 60_000 },
  accounts: 10_000,
  users: 1000,
  serviceAccounts: 1000,
  pipelines: 200,
  secrets: 200,
  daemons: 5000,
  newDaemons: { limit: 600, windowMs: 60_000 },
  changes: { limit: 2000, windowMs: 600_000 },
  changesOfAccount: { limit: 10_000, windowMs: 600_000 },
  keysPerUser: 50,
  revisions: 100,
  configBytes: 128 * 1024,
  components: 250,
  auditDays: 400,
}

export interface ServiceOptions {
  readonly store: Store
  /** The key of the HMAC under which access keys are stored. */
  readonly secret: Buffer
  readonly clock: Clock
  readonly random: (bytes: number) => Buffer
  readonly log: Logger
  /** The component types that pipelines may use. */
  readonly components: readonly AnyDefinition[]
  readonly limits?: Partial<ServiceLimits>
  /** Whether to run periodic tasks with timers; otherwise the caller must call `tick` and `sweep`. */
  readonly background?: boolean
}

/** Limit of the records of a page: a client that does not read its responses keeps their text in memory. */
const PAGE_BYTES = 1024 * 1024

const ENDS = /\.(?:remove|revoke)$/

type Details = AuditRecord['details']

/** What all parts of the domain share. */
export class Context {
  readonly store: Store
  readonly clock: Clock
  readonly random: (bytes: number) => Buffer
  readonly log: Logger
  readonly limits: ServiceLimits
  readonly ids: Ids
  /** By account, or by enterprise for entities that belong to no account. */
  readonly turns = new Turns()
  readonly #pages = new WeakMap<readonly Entry[], Page<unknown>>()
  readonly #changes: RateLimiter
  readonly #changesOfAccounts: RateLimiter
  readonly #sizes = new Derived((value: object) => JSON.stringify(value).length)
  #timeMs = Number.NaN
  #time = ''

  constructor({ store, clock, random, log, limits }: ServiceOptions) {
    this.store = store
    this.clock = clock
    this.random = random
    this.log = log
    this.limits = { ...DEFAULT_LIMITS, ...limits }
    this.#changes = new RateLimiter(this.limits.changes, clock)
    this.#changesOfAccounts = new RateLimiter(this.limits.changesOfAccount, clock)
    this.ids = new Ids(clock, random)
  }

  /** The current time, or `laterMs` after it. */
  time(laterMs = 0): string {
    const ms = Math.floor(this.clock.wall()) + laterMs
    // Cached, since every request asks for it, many in the same millisecond.
    if (ms !== this.#timeMs) {
      this.#timeMs = ms
      this.#time = new Date(ms).toISOString()
    }
    return this.#time
  }

  /** Undefined if it is missing. The type is that of the values written under such keys. */
  async read<T>(key: string): Promise<T | undefined> {
    return (await this.store.get(key)) as T | undefined
  }

  /** Resolves when the changes are durable. Throws ApiError 409 if something was modified in between. */
  async write(changes: readonly Change[], expected: readonly Expected[] = []): Promise<void> {
    try {
      await this.store.write(changes, expected)
    } catch (error) {
      if (!(error instanceof StoreError && error.code === 'SLUICE_STORE_CONFLICT')) throw error
      throw new ApiError(409, 'conflict', 'it was changed by somebody else at the same time; try again', {
        cause: error,
      })
    }
  }

  /** `reverse`: the newest first. */
  async page<T>(prefix: string, { limit, after }: PageQuery, reverse = false): Promise<Page<T>> {
    const from = after === undefined ? undefined : prefix + after
    return this.#pageOf(prefix, limit, await this.store.list(prefix, { after: from, limit: limit + 1, reverse }))
  }

  /** Returns the same page for the same entries, which allows caching what is derived from it. */
  #pageOf<T>(prefix: string, limit: number, entries: readonly Entry[]): Page<T> {
    const known = this.#pages.get(entries)
    if (known) return known as Page<T>
    const shown = this.#asFit(entries.slice(0, limit))
    const next = entries.length > shown.length ? shown.at(-1)!.key.slice(prefix.length) : null
    const page = { items: shown.map(({ value }) => value as T), next, limit }
    this.#pages.set(entries, page)
    return page
  }

  /** As many entries as fit on a page, and at least one. */
  #asFit(entries: readonly Entry[]): readonly Entry[] {
    let bytes = 0
    const end = entries.findIndex(({ value }, i) => {
      bytes += this.#sizes.of(value as object)
      return i > 0 && bytes > PAGE_BYTES
    })
    return end < 0 ? entries : entries.slice(0, end)
  }

  /** Throws 409 if the list already has `most` entries. */
  async room(prefix: string, most: number, what: string): Promise<void> {
    const entries = await this.store.list(prefix, { limit: most })
    if (entries.length >= most) throw tooMany(most, what)
  }

  /**
   * Creates the audit entry to be written along with a change. Details must not contain secrets. Throws ApiError 429
   * after too many changes: each one stays in the store for a long time, even if it is undone.
   */
  audit(principal: Principal, action: string, target: { type: string; id: string }, details: Details = {}): Change {
    const { type, subject, keyId, enterpriseId, address, requestId } = principal
    this.#countChange(principal, action)
    return this.auditEntry({
      action,
      actor: { type, id: subject.id, email: subject.email, key_id: keyId },
      enterprise_id: enterpriseId,
      account_id: principal.account?.id ?? null,
      target,
      details,
      address,
      request_id: requestId ?? null,
    })
  }

  #countChange({ subject, account, enterpriseId }: Principal, action: string): void {
    // Revoking or removing something is never limited: no one must be able to prevent that a key is revoked.
    if (ENDS.test(action)) return
    const own = this.#changes.take(subject.id)
    const state = own.allowed ? this.#changesOfAccounts.take(account?.id ?? enterpriseId) : own
    if (state.allowed) return
    const whose = own.allowed ? 'in this account' : 'by this user or service account'
    const message = `more than ${state.limit} changes in ${state.windowMs / 60_000} minutes ${whose}; wait`
    throw new ApiError(429, 'too_many_changes', message, { headers: rateHeaders(state) })
  }

  auditEntry(entry: Omit<AuditRecord, 'id' | 'at'>): Change {
    const id = this.ids.next()
    const value: AuditRecord = { id, at: this.time(), ...entry }
    return { key: at.auditEntry(entry.enterprise_id, entry.account_id, id), value }
  }
}

export function tooMany(most: number, what: string): ApiError {
  return new ApiError(
    409,
    'limit_reached',
    `there can be at most ${most} ${what}; remove those that are not needed any more`,
  )
}

export function mapPage<A, B>(page: Page<A>, show: (item: A) => B): Page<B> {
  return { ...page, items: page.items.map(show) }
}
