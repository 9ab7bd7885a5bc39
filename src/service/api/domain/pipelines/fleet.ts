import { portionsOf } from '../../store/store.js'
import { requireId, requireReporter, requireScope } from '../accounts/access.js'
import { type Context, tooMany } from '../context.js'
import type { DaemonDocument, Page } from '../documents.js'
import { ApiError, notFound } from '../errors.js'
import type { PageQuery, ReportInput } from '../inputs.js'
import type { Principal } from '../keys/principal.js'
import { RateLimiter, rateHeaders } from '../keys/rate-limiter.js'
import { at, type DaemonRecord, type PipelineRecord } from '../records.js'
import { KnownDaemons, SILENT_MS } from './known-daemons.js'

/** Daemons that have not reported for this long are removed. */
const FORGOTTEN_MS = 30 * 86_400_000
/** Entries processed before other work gets a turn. */
const PORTION = 500

/**
 * The reports of daemons. A report loses its value when the next one arrives, so reports are kept in memory and written
 * together every few seconds. If the process is killed, those are missing until the next report.
 */
export class Fleet {
  readonly #context: Context
  /** Undefined: to be removed. */
  readonly #unwritten = new Map<string, DaemonRecord | undefined>()
  /** Daemons by account; filled when an account is first used. */
  readonly #known = new Map<string, KnownDaemons>()
  readonly #registrations: RateLimiter
  /** Number of daemons that were removed to make room for new ones. */
  evicted = 0
  /** Number of refused reports of new daemons: too many at a time, or too many in the account. */
  refused = 0

  constructor(context: Context) {
    this.#context = context
    this.#registrations = new RateLimiter(context.limits.newDaemons, context.clock)
  }

  /** Daemons of the account's pipelines, or of all accounts at enterprise scope. */
  async list(principal: Principal, page: PageQuery): Promise<Page<DaemonDocument>> {
    requireScope(principal, 'pipeline:read')
    const { enterpriseId, account } = principal
    const prefix = at.daemons(enterpriseId, account?.id)
    const { limit, after } = page
    const first = after === undefined ? {} : { after: prefix + after }
    const unwritten = [...this.#unwritten].filter(([key]) => key.startsWith(prefix) && !(key <= (first.after ?? '')))
    const removed = unwritten.filter(([, record]) => record === undefined).length
    const stored = await this.#context.store.list(prefix, { ...first, limit: limit + 1 + removed })
    const entries = new Map(stored.map(({ key, value }) => [key, value as DaemonRecord | undefined]))
    for (const [key, record] of unwritten) entries.set(key, record)
    const found = [...entries].filter(([, record]) => record).sort(([a], [b]) => (a < b ? -1 : 1))
    const shown = found.slice(0, limit)
    const items = await Promise.all(shown.map(([key, record]) => this.#show(record!, enterpriseId, key.split('/')[2]!)))
    return { items, next: found.length > limit ? shown.at(-1)![0].slice(prefix.length) : null, limit }
  }

  /** Requires `pipeline:read`; viewers are not allowed. Stored in memory first, and written every few seconds. */
  async report(principal: Principal, input: ReportInput): Promise<DaemonDocument> {
    const { id: accountId } = requireReporter(principal)
    const { enterpriseId } = principal
    requireId(input.pipeline_id, 'pipeline')
    const pipeline = await this.#pipeline(enterpriseId, accountId, input.pipeline_id)
    if (!pipeline) throw notFound('pipeline')
    const key = at.daemon(enterpriseId, accountId, pipeline.id, input.daemon_id)
    const known = await this.#daemons(enterpriseId, accountId)
    if (!known.has(key)) this.#admit(principal, known)
    const registeredMs = known.reported(key, Math.floor(this.#context.clock.wall()))
    const record: DaemonRecord = {
      id: input.daemon_id,
      pipeline_id: pipeline.id,
      host: input.host,
      version: input.version,
      revision: input.revision,
      health: input.health,
      error: input.error ?? null,
      totals: input.totals ?? {},
      started_at: input.started_at ?? null,
      reported_at: this.#context.time(),
      registered_at: new Date(registeredMs).toISOString(),
    }
    this.#unwritten.set(key, record)
    return this.#show(record, enterpriseId, accountId)
  }

  /** Throws if another daemon cannot be added. A full account loses a daemon that is not known to be real. */
  #admit({ subject, account }: Principal, known: KnownDaemons): void {
    const { clock, limits, log } = this.#context
    const rate = this.#registrations.take(subject.id)
    if (!rate.allowed) {
      this.refused++
      const message = `more than ${rate.limit} new daemons in ${rate.windowMs / 1000} seconds; report again later`
      throw new ApiError(429, 'too_many_daemons', message, { headers: rateHeaders(rate) })
    }
    while (known.size >= limits.daemons) {
      const key = known.evict(Math.floor(clock.wall()))
      if (key === undefined) {
        this.refused++
        throw tooMany(limits.daemons, 'daemons in an account')
      }
      if (this.evicted++ === 0)
        log.warn(
          { account: account?.id, subject: subject.id, limit: limits.daemons },
          'an account has reached its limit of daemons; new ones replace those that reported only briefly',
        )
      this.#unwritten.set(key, undefined)
    }
  }

  /** Writes the reports to the store. */
  async flush(): Promise<void> {
    if (this.#unwritten.size === 0) return
    const reports = [...this.#unwritten]
    await this.#context.store.write(reports.map(([key, value]) => ({ key, value })))
    // A list reads them here until then. What was reported meanwhile is written next time.
    for (const [key, value] of reports) if (this.#unwritten.get(key) === value) this.#unwritten.delete(key)
  }

  /** Removes daemons that have not reported for a long time, and those whose pipeline is gone. */
  async forgetOld(): Promise<void> {
    const { store } = this.#context
    const oldest = this.#context.time(-FORGOTTEN_MS)
    for await (const entries of portionsOf(store, at.allDaemons, PORTION)) {
      const gone: string[] = []
      for (const { key, value } of entries) {
        const record = value as DaemonRecord
        const [, enterprise, account] = key.split('/') as [string, string, string]
        const kept = record.reported_at > oldest && (await this.#pipeline(enterprise, account, record.pipeline_id))
        if (!kept) gone.push(key)
      }
      if (gone.length > 0) await store.write(gone.map(key => ({ key, value: undefined })))
    }
    await this.flush()
    this.#known.clear()
  }

  async #daemons(enterpriseId: string, accountId: string): Promise<KnownDaemons> {
    const known = this.#known.get(accountId)
    if (known) return known
    const entries = await this.#context.store.list(at.daemons(enterpriseId, accountId))
    const read = this.#known.get(accountId) ?? new KnownDaemons(entries)
    this.#known.set(accountId, read)
    return read
  }

  #pipeline(enterprise: string, account: string, id: string): Promise<PipelineRecord | undefined> {
    return this.#context.read<PipelineRecord>(at.pipeline(enterprise, account, id))
  }

  async #show(
    { registered_at: _, ...record }: DaemonRecord,
    enterprise: string,
    account: string,
  ): Promise<DaemonDocument> {
    const pipeline = await this.#pipeline(enterprise, account, record.pipeline_id)
    const published = pipeline?.published_revision ?? null
    const silent = Date.parse(record.reported_at) + SILENT_MS < this.#context.clock.wall()
    return {
      ...record,
      published_revision: published,
      behind: published !== null && record.revision !== published,
      silent,
    }
  }
}
