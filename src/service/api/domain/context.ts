import type { Logger } from 'pino'
import type { AnyDefinition } from '../../../core/component.js'
import type { AuditDocument, PageDocument } from '../../../daemon/client/documents.js'
import type { PageQuery } from '../../../daemon/client/inputs.js'
import type { Clock } from '../../../lib/time.js'
import { type Nodes, SINGLE_NODE } from '../nodes.js'
import type { Sql, Store, Value } from '../store/store.js'
import { ApiError } from './errors.js'
import { Ids } from './ids.js'
import { accountOf, type Principal } from './keys/principal.js'
import { type RateLimit, RateLimiter, type RateLimits, rateHeaders } from './keys/rate-limiter.js'
import type { SharedRates } from './keys/shared-rates.js'

export interface ServiceLimits {
  readonly requestsPerKey: RateLimit
  /** Attempts with unknown keys from one address. Requests with a valid key do not count as attempts. */
  readonly failedTries: RateLimit
  readonly accounts: number
  /** This limit and the next four are per account. */
  readonly users: number
  readonly serviceAccounts: number
  readonly pipelines: number
  readonly secrets: number
  readonly daemons: number
  /** New daemons that one user or service account may register. */
  readonly newDaemons: RateLimit
  /** Maximum rates of changes: by one user or service account, and in a whole account. */
  readonly changes: RateLimit
  readonly changesOfAccount: RateLimit
  readonly keysPerUser: number
  /** Revisions that are kept per pipeline. The published revision is always kept. */
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

export interface ContextOptions {
  readonly store: Store
  /** The HMAC key for the hashes of access keys. */
  readonly secret: Buffer
  readonly clock: Clock
  readonly random: (bytes: number) => Buffer
  readonly log: Logger
  readonly components: readonly AnyDefinition[]
  readonly limits?: Partial<ServiceLimits>
  /** Default: this is the only node. */
  readonly nodes?: Nodes
  /** Rate limits that all nodes share. By default, each node allows its share of a limit. */
  readonly rates?: SharedRates | undefined
  /** Default: true. If false, the caller must call `flush` and `sweep`. */
  readonly background?: boolean
}

/** Maximum total length of the texts on a page. It is limited because responses wait in memory for slow clients. */
const PAGE_BYTES = 1024 * 1024

const ENDS = /\.(?:remove|revoke)$/

type Details = AuditDocument['details']

/**
 * Adds the audit entry of a change. Details must not contain secrets. Throws ApiError 429 after too many changes,
 * because audit entries stay in the store for a long time, even if a later change reverses the first.
 */
export type AddAudit = (action: string, target: { type: string; id: string }, details?: Details) => Promise<void>

export interface RowsToList<R> {
  /** The statement without its LIMIT. `$1` is the cursor, and `$2` the limit. */
  readonly text: string
  /** Values from `$3` on. */
  readonly values: readonly Value[]
  /** The cursor before the first row; empty by default. */
  readonly first?: string
  /** Default: the id of the row. */
  readonly cursorOf?: (row: R) => string
}

export class Context {
  readonly store: Store
  readonly clock: Clock
  readonly random: (bytes: number) => Buffer
  readonly log: Logger
  readonly limits: ServiceLimits
  readonly nodes: Nodes
  readonly ids: Ids
  readonly #rates: SharedRates | undefined
  readonly #changes: RateLimits
  readonly #changesOfAccounts: RateLimits
  #timeMs = Number.NaN
  #time = ''

  constructor({ store, clock, random, log, limits, nodes = SINGLE_NODE, rates }: ContextOptions) {
    this.store = store
    this.clock = clock
    this.random = random
    this.log = log
    this.limits = { ...DEFAULT_LIMITS, ...limits }
    this.nodes = nodes
    this.#rates = rates
    this.#changes = this.limiter('changes')
    this.#changesOfAccounts = this.limiter('changesOfAccount')
    this.ids = new Ids(clock, random)
  }

  /** Creates a limiter that counts uses by key. If nodes share their limits, all uses are counted together. */
  limiter(name: 'requestsPerKey' | 'failedTries' | 'newDaemons' | 'changes' | 'changesOfAccount'): RateLimits {
    const local = new RateLimiter(this.limits[name], this.clock, this.nodes)
    // Only requests may wait. A change must not wait, because it holds a connection to the database.
    return this.#rates?.limiter(name, local, name === 'requestsPerKey') ?? local
  }

  /** The current time plus `laterMs` milliseconds, in ISO 8601. */
  time(laterMs = 0): string {
    const ms = Math.floor(this.clock.wall()) + laterMs
    // The text is cached, because every request needs it, often many requests in the same millisecond.
    if (ms !== this.#timeMs) {
      this.#timeMs = ms
      this.#time = new Date(ms).toISOString()
    }
    return this.#time
  }

  /** Makes a change by `principal`; see Store.change. `audit` adds the audit entry within the change. */
  change<T>(principal: Principal, work: (sql: Sql, audit: AddAudit) => Promise<T>): Promise<T> {
    const { type, subject, keyId, enterpriseId, account, address, requestId } = principal
    return this.store.change(accountOf(principal), sql =>
      work(sql, async (action, target, details = {}) => {
        await this.#countChange(principal, action)
        const actor = { type, id: subject.id, email: subject.email, key_id: keyId }
        const from = { address, request_id: requestId ?? null }
        await this.audit(sql, action, enterpriseId, account?.id ?? null, { actor, target, details, ...from })
      }),
    )
  }

  async audit(
    sql: Sql,
    action: string,
    enterpriseId: string,
    accountId: string | null,
    entry: Pick<AuditDocument, 'actor' | 'target' | 'details' | 'address' | 'request_id'>,
  ): Promise<void> {
    await sql.run(
      `INSERT INTO audit (id, owner_id, enterprise_id, account_id, at, action, entry)
       VALUES ($1, $2, $3, $4, $5, $6, $7)`,
      ...[this.ids.next(), accountId ?? enterpriseId, enterpriseId, accountId, this.time(), action],
      JSON.stringify(entry),
    )
  }

  /** Reads a page of at most `limit` rows that fit into PAGE_BYTES. The first row is added even if it does not fit. */
  async page<R extends object, T>(
    { limit, after }: PageQuery,
    { text, values, first = '', cursorOf = row => (row as unknown as { id: string }).id }: RowsToList<R>,
    show: (row: R) => T | Promise<T>,
  ): Promise<PageDocument<T>> {
    const rows = await this.store.all<R>(`${text} LIMIT $2`, after ?? first, limit + 1, ...values)
    const items: T[] = []
    let bytes = 0
    for (const row of rows.slice(0, limit)) {
      for (const value of Object.values(row)) if (typeof value === 'string') bytes += value.length
      if (items.length > 0 && bytes > PAGE_BYTES) break
      items.push(await show(row))
    }
    return { items, next: rows.length > items.length ? cursorOf(rows[items.length - 1]!) : null, limit }
  }

  /** Throws 409 if there are `most` rows already. `from`: the table, and the conditions of the rows. */
  async room(sql: Sql, most: number, what: string, from: string, ...values: readonly Value[]): Promise<void> {
    const found = await sql.get<{ count: number }>(`SELECT count(*) AS count FROM ${from}`, ...values)
    if (Number(found!.count) >= most) throw tooMany(most, what)
  }

  async #countChange(principal: Principal, action: string): Promise<void> {
    // Revoking and removing are not limited: nobody must be able to block the revocation of a key.
    if (ENDS.test(action)) return
    const own = await this.#changes.take(principal.subject.id)
    const state = own.allowed ? await this.#changesOfAccounts.take(accountOf(principal)) : own
    if (state.allowed) return
    const whose = own.allowed ? 'in this account' : 'by this user or service account'
    const message = `more than ${state.limit} changes in ${state.windowMs / 60_000} minutes ${whose}; wait`
    throw new ApiError(429, 'too_many_changes', message, { headers: rateHeaders(state) })
  }
}

export function tooMany(most: number, what: string): ApiError {
  return new ApiError(
    409,
    'limit_reached',
    `there can be at most ${most} ${what}; remove some that are no longer needed`,
  )
}
