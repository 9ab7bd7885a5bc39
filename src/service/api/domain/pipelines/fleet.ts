import type { DaemonDocument, PageDocument } from '../../../../daemon/client/documents.js'
import type { PageQuery, ReportInput } from '../../../../daemon/client/inputs.js'
import { nextTurn } from '../../../../lib/time.js'
import { CLOCKS_MS } from '../../nodes.js'
import type { Sql, Value } from '../../store/store.js'
import { requireId, requireReporter, requireScope } from '../accounts/access.js'
import { type Context, tooMany } from '../context.js'
import { ApiError, notFound } from '../errors.js'
import type { Principal } from '../keys/principal.js'
import { type RateLimits, type RateState, rateHeaders } from '../keys/rate-limiter.js'
import { KnownDaemons, type ReadDaemons, SILENT_MS } from './known-daemons.js'
import type { Pipelines } from './pipelines.js'

/** Daemons that have not reported for this long are removed. */
const FORGOTTEN_MS = 30 * 86_400_000

/**
 * Minimum time between two reads of the daemons of a full account. Nodes write their reports at the same interval, so
 * reading more often would not help.
 */
const REREAD_MS = 10_000

/** Daemons per statement when all daemons are checked. Other statements must wait while a statement runs. */
const PORTION = 1000

/** JSON of the column `report`. */
type Report = Pick<DaemonDocument, 'host' | 'version' | 'revision' | 'health' | 'error' | 'totals' | 'started_at'>

interface Daemon {
  readonly id: string
  readonly pipeline_id: string
  readonly enterprise_id: string
  readonly account_id: string
  readonly registered_at: string
  readonly reported_at: string
  readonly report: Report
}

type Row = Omit<Daemon, 'report'> & { readonly report: string }

const ROW = 'SELECT id, pipeline_id, enterprise_id, account_id, registered_at, reported_at, report FROM daemon'
/** Rows are sorted by this key. */
const keyOf = ({ pipeline_id, id }: Pick<Daemon, 'pipeline_id' | 'id'>): string => `${pipeline_id}/${id}`

/** A change that is not in the store yet: a report of a daemon, or the removal of a daemon. */
interface Unwritten {
  readonly enterprise_id: string
  readonly account_id: string
  /** Undefined: the daemon is to be removed. */
  readonly daemon: Daemon | undefined
}

/**
 * The reports of daemons. Only the last report of each daemon is needed, so reports are kept in memory and written
 * together every few seconds. If the process is killed, unwritten reports are missing until the daemons report again.
 */
export class Fleet {
  readonly #context: Context
  readonly #pipelines: Pick<Pipelines, 'find'>
  readonly #unwritten = new Map<string, Unwritten>()
  /** Daemons by account. Those of an account are read from the store when the account is first used. */
  readonly #known = new Map<string, KnownDaemons>()
  readonly #registrations: RateLimits
  /** Number of daemons that were removed to make room for new daemons. */
  evicted = 0
  /** Number of refused reports of new daemons. Too many new daemons came at a time, or the account was full. */
  refused = 0

  constructor(context: Context, pipelines: Pick<Pipelines, 'find'>) {
    this.#context = context
    this.#pipelines = pipelines
    this.#registrations = context.limiter('newDaemons')
  }

  /** Lists the daemons of the account's pipelines; at enterprise scope, of all accounts. */
  async list(principal: Principal, { limit, after = '' }: PageQuery): Promise<PageDocument<DaemonDocument>> {
    requireScope(principal, 'pipeline:read')
    const [scope, of] = principal.account
      ? (['account_id', principal.account.id] as const)
      : (['enterprise_id', principal.enterpriseId] as const)
    const unwritten = [...this.#unwritten].filter(([key, one]) => one[scope] === of && key > after)
    const removed = unwritten.filter(([, { daemon }]) => daemon === undefined).length
    const slash = after.indexOf('/')
    const rows = await this.#context.store.all<Row>(
      `${ROW} WHERE (pipeline_id, id) > ($1, $2) AND ${scope} = $3 ORDER BY pipeline_id, id LIMIT $4`,
      ...[slash < 0 ? after : after.slice(0, slash), slash < 0 ? '' : after.slice(slash + 1), of],
      limit + 1 + removed,
    )
    const entries = new Map<string, Daemon | undefined>(rows.map(row => [keyOf(row), daemonOf(row)]))
    for (const [key, { daemon }] of unwritten) entries.set(key, daemon)
    const found = [...entries].flatMap(([, daemon]) => daemon ?? []).sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))
    const shown = found.slice(0, limit)
    const items = await Promise.all(shown.map(daemon => this.#show(daemon)))
    return { items, next: found.length > limit ? keyOf(shown.at(-1)!) : null, limit }
  }

  /** Keeps a report in memory until the next flush. Requires `pipeline:read`; viewers are not allowed. */
  async report(principal: Principal, input: ReportInput): Promise<DaemonDocument> {
    const { id: account_id } = requireReporter(principal)
    const { daemon_id: id, pipeline_id, error = null, totals = {}, started_at = null, ...given } = input
    requireId(pipeline_id, 'pipeline')
    if ((await this.#pipelines.find(pipeline_id))?.account_id !== account_id) throw notFound('pipeline')
    const key = keyOf({ pipeline_id, id })
    const known = await this.#daemons(account_id)
    if (!known.has(key)) {
      const rate = await this.#registrations.take(principal.subject.id)
      if (rate.allowed && known.size >= this.#context.limits.daemons) await this.#readAgain(account_id, known)
      if (!known.has(key)) this.#admit(principal, account_id, known, rate)
    }
    const registeredMs = known.reported(key, Math.floor(this.#context.clock.wall()))
    const place = { enterprise_id: principal.enterpriseId, account_id }
    const daemon: Daemon = {
      ...{ id, pipeline_id, ...place },
      registered_at: new Date(registeredMs).toISOString(),
      reported_at: this.#context.time(),
      report: { ...given, error, totals, started_at },
    }
    this.#unwritten.set(key, { ...place, daemon })
    return this.#show(daemon)
  }

  /** Throws if a new daemon cannot be added. If the account is full, first removes an unconfirmed or silent daemon. */
  #admit(
    { subject, enterpriseId: enterprise_id }: Principal,
    account_id: string,
    known: KnownDaemons,
    rate: RateState,
  ): void {
    const { clock, limits, log } = this.#context
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
          { account: account_id, subject: subject.id, limit: limits.daemons },
          'an account has reached its limit of daemons; new daemons replace daemons that reported only briefly',
        )
      this.#unwritten.set(key, { enterprise_id, account_id, daemon: undefined })
    }
  }

  async flush(): Promise<void> {
    if (this.#unwritten.size === 0) return
    const reports = [...this.#unwritten]
    const latest = this.#context.time(CLOCKS_MS)
    await this.#context.store.change('', async sql => {
      for (const [key, { daemon }] of reports) await (daemon ? write(sql, daemon, latest) : remove(sql, key))
    })
    // Reports leave the memory only after the write, because until then `list` reads them from memory. Reports that
    // arrived during the write are written next time.
    for (const [key, one] of reports) if (this.#unwritten.get(key) === one) this.#unwritten.delete(key)
  }

  /**
   * Removes the daemons of a removed pipeline. Reports are saved under the lock of this change, so both cannot wait for
   * each other, as they could within the change that removes the pipeline. After a failure, `forgetOld` removes the rows.
   */
  async forgetPipeline(account: string, id: string): Promise<void> {
    const prefix = keyOf({ pipeline_id: id, id: '' })
    for (const key of this.#unwritten.keys()) if (key.startsWith(prefix)) this.#unwritten.delete(key)
    this.#known.get(account)?.forget(prefix)
    await this.#context.store.run('DELETE FROM daemon WHERE pipeline_id = $1', id).catch(() => {})
  }

  /** Removes daemons that have not reported for a long time, and daemons of removed pipelines. */
  async forgetOld(): Promise<void> {
    await this.flush()
    const { store } = this.#context
    await store.run('DELETE FROM daemon WHERE reported_at <= $1', this.#context.time(-FORGOTTEN_MS))
    await this.#forgetOrphans()
  }

  /** PostgreSQL can save a report while another connection removes its pipeline. */
  async #forgetOrphans(): Promise<void> {
    const { store } = this.#context
    const orphans = `SELECT pipeline_id FROM daemon WHERE pipeline_id > $1 AND pipeline_id <= $2 AND NOT EXISTS (
      SELECT p.id FROM pipeline p WHERE p.id = daemon.pipeline_id AND p.removed_at IS NULL)`
    const end = 'SELECT pipeline_id FROM daemon WHERE pipeline_id > $1 ORDER BY pipeline_id LIMIT 1 OFFSET $2'
    for (let after: string | undefined = ''; after !== undefined; ) {
      const last: string | undefined = (await store.get<Pick<Row, 'pipeline_id'>>(end, after, PORTION))?.pipeline_id
      const portion = [after, last ?? '~']
      if (await store.get(`${orphans} LIMIT 1`, ...portion))
        await store.run(`DELETE FROM daemon WHERE pipeline_id IN (${orphans})`, ...portion)
      after = last
      // The embedded store blocks this thread while it reads, so requests are answered between two portions.
      await nextTurn()
    }
  }

  /** Clears the daemons in memory, since other nodes may have added some. The next use reads them again. */
  async refresh(): Promise<void> {
    await this.flush()
    this.#known.clear()
  }

  async #daemons(account: string): Promise<KnownDaemons> {
    const known = this.#known.get(account)
    if (known) return known
    const read = await this.#read(account)
    const now = this.#known.get(account) ?? new KnownDaemons(read, this.#context.clock.now())
    this.#known.set(account, now)
    return now
  }

  /** Reads the daemons of a full account again, since other nodes may have added some, or removed some. */
  #readAgain(account: string, known: KnownDaemons): Promise<void> {
    const ms = this.#context.clock.now()
    if (ms - known.read.ms >= REREAD_MS)
      known.read = { ms, done: this.#read(account).then(daemons => known.replace(daemons)) }
    return known.read.done
  }

  async #read(account: string): Promise<ReadDaemons> {
    const before = [...this.#unwritten]
    const text = 'SELECT pipeline_id, id, registered_at, reported_at FROM daemon WHERE account_id = $1'
    const rows = await this.#context.store.all<Omit<Daemon, 'report'>>(text, account)
    const daemons = new Map(rows.map(row => [keyOf(row), row]))
    // Changes that are written during the read may be missing in the rows.
    for (const [key, { account_id, daemon }] of [...before, ...this.#unwritten]) {
      if (account_id !== account) continue
      if (daemon) daemons.set(key, daemon)
      else daemons.delete(key)
    }
    return daemons
  }

  async #show({ id, pipeline_id, report, reported_at }: Daemon): Promise<DaemonDocument> {
    const published = (await this.#pipelines.find(pipeline_id))?.published_revision ?? null
    const silent = Date.parse(reported_at) + SILENT_MS < this.#context.clock.wall()
    return {
      ...{ id, pipeline_id, ...report, reported_at },
      published_revision: published,
      behind: published !== null && report.revision !== published,
      silent,
    }
  }
}

function daemonOf({ report, ...row }: Row): Daemon {
  return { ...row, report: JSON.parse(report) }
}

/**
 * Writes a report, unless its pipeline was removed or another node has written a later report of the daemon. Replaces a
 * report from after `latest`.
 */
async function write(sql: Sql, daemon: Daemon, latest: string): Promise<void> {
  const { id, pipeline_id, enterprise_id, account_id, registered_at, reported_at, report } = daemon
  const values: Value[] = [pipeline_id, id, enterprise_id, account_id, registered_at, reported_at]
  await sql.run(
    `INSERT INTO daemon (pipeline_id, id, enterprise_id, account_id, registered_at, reported_at, report)
     SELECT $1, $2, $3, $4, $5, $6, $7
     WHERE EXISTS (SELECT id FROM pipeline WHERE id = $1 AND removed_at IS NULL)
     ON CONFLICT (pipeline_id, id) DO UPDATE SET registered_at = excluded.registered_at,
       reported_at = excluded.reported_at, report = excluded.report
     WHERE daemon.reported_at <= excluded.reported_at OR daemon.reported_at > $8`,
    ...values,
    ...[JSON.stringify(report), latest],
  )
}

async function remove(sql: Sql, key: string): Promise<void> {
  const slash = key.indexOf('/')
  const names = [key.slice(0, slash), key.slice(slash + 1)]
  await sql.run('DELETE FROM daemon WHERE pipeline_id = $1 AND id = $2', ...names)
}
