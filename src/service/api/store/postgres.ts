import { createHash, randomBytes } from 'node:crypto'
import { Socket } from 'node:net'
import type { Client, ClientBase, Pool, PoolClient, PoolConfig, QueryResult } from 'pg'
import type { Logger } from 'pino'
import { errorCode, errorText } from '../../../core/errors.js'
import type { PostgresOptions } from '../../../engine/config/store-options.js'
import { nodeTls } from '../../../lib/network/node-tls.js'
import { every, systemClock } from '../../../lib/time.js'
import { AccessKey } from '../../../net/key.js'
import { TlsFiles } from '../../../net/tls.js'
import { ChangeFeed, type ChangePlace, CREATE_FEED, publishChange } from './change-feed.js'
import { StoreMonitor } from './monitor.js'
import { MIGRATIONS } from './schema.js'
import {
  changedBy,
  type Sql,
  type Store,
  StoreError,
  type StoreHealth,
  TABLES,
  type TableName,
  type Value,
} from './store.js'

/**
 * The store in PostgreSQL. Each change is a transaction. It locks its owner against other nodes and `sluice admin`.
 * Failed statements are not retried. A request fails within the time limits below, and the next request reconnects.
 */

/** Time limit to get a connection, new or from the pool. */
const CONNECT_MS = 5000
const STATEMENT_MS = 5000
/** Time limit in this process, because a server behind a broken network cannot enforce STATEMENT_MS. */
const ANSWER_MS = STATEMENT_MS + 1000
/** How long a change waits for earlier changes of its owner. */
const TURN_MS = 5000
/** For statements of migrations and exports. */
const PATIENT_MS = 60_000
const CONNECTIONS = 10
const TLS_CHECK_MS = 60_000
/** Code of a notice that is not a warning. */
const SUCCESS = '00000'
/** The advisory lock under which one node migrates. */
const MIGRATING = 7_305_113

type Pg = Pick<typeof import('pg'), 'Client' | 'Pool' | 'types'>

/** Connects, and creates the tables that are missing. Throws StoreError. */
export async function openPostgres(options: PostgresOptions, log: Logger): Promise<PostgresStore> {
  const ends: (() => unknown)[] = []
  try {
    const pg = await import('pg')
    const ssl = options.tls && (await verifiedTls(options.tls, ends, log))
    const sockets = new Set<Socket>()
    ends.unshift(() => {
      for (const socket of sockets) socket.destroy()
    })
    const config = { ...configOf(pg, options, ssl, log), stream: () => socketIn(sockets) }
    const patient = { ...config, statement_timeout: PATIENT_MS, query_timeout: PATIENT_MS + 1000 }
    const connectPatient = () => connected(pg, patient)
    const migrating = await connectPatient()
    await migrate(migrating).finally(() => migrating.end())
    const monitor = new StoreMonitor(log, { url: options.url }, 'Check PostgreSQL and the network')
    const store = new PostgresStore(options.url, () => new pg.Pool(config), connectPatient, monitor, ends)
    const feed = await ChangeFeed.open({
      node: () => store.node,
      log,
      monitor,
      connect: () => connected(pg, config),
      reconnected: () => store.leavePool(),
    })
    store.confirmed = place => feed.confirmed(place)
    ends.unshift(() => feed.close())
    return store
  } catch (error) {
    for (const end of ends) await end()
    throw unusable(options.url, error)
  }
}

function configOf(pg: Pg, { url, password_file }: PostgresOptions, ssl: object | undefined, log: Logger): PoolConfig {
  const { hostname, port, username, pathname } = new URL(url)
  const key = password_file === undefined ? undefined : passwordIn(password_file, log)
  return {
    host: hostname.replace(/^\[(.*)\]$/, '$1'),
    port: Number(port || 5432),
    user: decodeURIComponent(username),
    database: decodeURIComponent(pathname.slice(1)),
    // If an option is missing here, pg takes it from an environment variable.
    password: async () => {
      if (!key) throw new Error('the server asks for a password; set password_file')
      return await key.current()
    },
    ssl: ssl ?? false,
    options: '',
    client_encoding: 'UTF8',
    application_name: 'sluice',
    max: CONNECTIONS,
    idleTimeoutMillis: 0,
    connectionTimeoutMillis: CONNECT_MS,
    statement_timeout: STATEMENT_MS,
    query_timeout: ANSWER_MS,
    idle_in_transaction_session_timeout: ANSWER_MS,
    keepAlive: true,
    types: {
      // By default, pg returns the 64-bit numbers of sums and counts as text.
      getTypeParser: (oid, format) =>
        oid === 20 || oid === 1700 ? Number : pg.types.getTypeParser(oid, format as 'text'),
    },
  }
}

/**
 * Creates a socket that is destroyed when the store closes, because Node.js 20 may leave the TLS socket of an ended
 * client open.
 */
function socketIn(sockets: Set<Socket>): Socket {
  const socket = new Socket()
  sockets.add(socket)
  return socket.on('close', () => sockets.delete(socket))
}

function passwordIn(file: string, log: Logger): AccessKey {
  const source = { key: undefined, key_file: file, credential: undefined, exec: undefined }
  return new AccessKey(source, log, undefined, 'password')
}

/** Returns TLS options for connections. The options change when a file is replaced. */
async function verifiedTls(
  { server_name, ...paths }: NonNullable<PostgresOptions['tls']>,
  ends: (() => unknown)[],
  log: Logger,
): Promise<object> {
  const files = new TlsFiles(paths, { log, clock: systemClock, failed: () => {} })
  // pg always uses the host as the server name, so the certificate is checked here for `server_name`.
  const { checkServerIdentity } = nodeTls()
  const named = server_name !== undefined && {
    checkServerIdentity: (_host: string, cert: Parameters<typeof checkServerIdentity>[1]) =>
      checkServerIdentity(server_name, cert),
  }
  const { ca, cert, key } = await files.load()
  const options = { ca, cert, key, rejectUnauthorized: true, ...named }
  const renew = async () => {
    const renewed = await files.renewed()
    if (renewed) Object.assign(options, { ca: renewed.ca, cert: renewed.cert, key: renewed.key })
  }
  ends.push(every(TLS_CHECK_MS, () => void renew()))
  return options
}

async function connected(pg: Pg, config: PoolConfig): Promise<Client> {
  const client = new pg.Client(config)
  // Without a listener, the error would end the process. The next use of the client fails with the same error.
  client.on('error', () => {})
  try {
    await client.connect()
    return client
  } catch (error) {
    client.end().catch(() => {})
    throw error
  }
}

/** Runs the missing migrations under a lock, so that only one node runs them. */
async function migrate(client: Client): Promise<void> {
  if ((await versionOf(client)) >= MIGRATIONS.length) return
  await client.query(`BEGIN; SELECT pg_advisory_xact_lock(${MIGRATING})`)
  const version = await versionOf(client)
  if (version === 0) await client.query(`CREATE TABLE migration (version integer PRIMARY KEY); ${CREATE_FEED}`)
  for (const [i, text] of MIGRATIONS.entries()) {
    if (i < version) continue
    // Texts are compared by their bytes, as in SQLite.
    await client.query(text.replaceAll(/\btext\b/g, 'text COLLATE "C"'))
    await client.query('INSERT INTO migration (version) VALUES ($1)', [i + 1])
  }
  await client.query('COMMIT')
}

async function versionOf(client: Client): Promise<number> {
  // Does not use to_regclass, which may answer from a cache until the transaction ends.
  const text = "SELECT oid FROM pg_class WHERE relname = 'migration' AND pg_table_is_visible(oid)"
  if ((await client.query(text)).rows.length === 0) return 0
  return (await client.query('SELECT max(version) AS version FROM migration')).rows[0].version
}

export class PostgresStore implements Store {
  readonly #url: string
  readonly #openPool: () => Pool
  readonly #connectPatient: () => Promise<Client>
  readonly #monitor: StoreMonitor
  readonly #ends: readonly (() => unknown)[]
  #pool: Pool
  #reads: Sql
  /** The last change of each owner. The owner's next change waits for it before taking a connection. */
  readonly #last = new Map<string, Promise<unknown>>()
  /** The name of this node in the table of changes. */
  node = newName()
  /** Called for each change of this node after PostgreSQL has confirmed the change. */
  confirmed: (place: ChangePlace) => void = () => {}
  #isClosed = false

  constructor(
    url: string,
    openPool: () => Pool,
    connectPatient: () => Promise<Client>,
    monitor: StoreMonitor,
    ends: readonly (() => unknown)[],
  ) {
    this.#url = url
    this.#openPool = openPool
    this.#connectPatient = connectPatient
    this.#monitor = monitor
    this.#ends = ends
    this.#pool = this.#newPool()
    this.#reads = statements(this.#pool, url)
  }

  #newPool(): Pool {
    const pool = this.#openPool()
    pool.on('error', () => {})
    // The statement in progress fails with the same error. Without this listener, the error would end the process too.
    pool.on('connect', client => client.on('error', () => {}))
    return pool
  }

  /** Replaces all connections, since another server may have taken over. */
  leavePool(): void {
    this.#pool.end().catch(() => {})
    this.#pool = this.#newPool()
    this.#reads = statements(this.#pool, this.#url)
  }

  all<R>(text: string, ...values: readonly Value[]): Promise<R[]> {
    return this.#reads.all<R>(text, ...values)
  }

  get<R>(text: string, ...values: readonly Value[]): Promise<R | undefined> {
    return this.#reads.get<R>(text, ...values)
  }

  run(text: string, ...values: readonly Value[]): Promise<number> {
    return this.change('', sql => sql.run(text, ...values))
  }

  async change<T>(owner: string, work: (sql: Sql) => Promise<T>): Promise<T> {
    const asked = systemClock.now()
    const done = (this.#last.get(owner) ?? Promise.resolve()).then(() => {
      if (systemClock.now() - asked > TURN_MS) throw this.#failed(new Error('earlier changes took too long'))
      return this.#transact(owner, work)
    })
    const settled = done.catch(() => {})
    this.#last.set(owner, settled)
    try {
      return await done
    } finally {
      if (this.#last.get(owner) === settled) this.#last.delete(owner)
    }
  }

  async #transact<T>(owner: string, work: (sql: Sql) => Promise<T>): Promise<T> {
    const changed = new Set<string>()
    let client: PoolClient | undefined
    let isBroken = false
    try {
      client = await this.#pool.connect()
      const sql = statements(client, this.#url, changed)
      await execute(client, this.#url, `BEGIN ISOLATION LEVEL READ COMMITTED; ${lockOf(owner)}`)
      const value = await work(sql)
      await this.#commit(
        client,
        TABLES.filter(table => changed.has(table)),
      )
      if (changed.size > 0) this.#monitor.saved()
      return value
    } catch (error) {
      const failure = client && !(error instanceof StoreError) ? undefined : this.#failed(error)
      // A failed connection is closed, so that the server rolls back.
      if (failure) {
        isBroken = true
        // The server may still commit the change. With a new name, this node then treats it as a change of another
        // node.
        this.node = newName()
      } else await client!.query('ROLLBACK').catch(() => (isBroken = true))
      throw failure ?? error
    } finally {
      client?.release(isBroken)
      // Caches are emptied even after a failure, because the change may have been saved.
      this.#monitor.changed(changed)
    }
  }

  async #commit(client: ClientBase, tables: readonly string[]): Promise<void> {
    const text = tables.length > 0 ? `${publishChange(this.node, tables)}; COMMIT` : 'COMMIT'
    const warnings: string[] = []
    const note = ({ code, message }: { code?: string | undefined; message?: string | undefined }) => {
      if (code !== SUCCESS) warnings.push(`${message}`)
    }
    client.on('notice', note)
    const results = [await execute(client, this.#url, text)].flat() as QueryResult[]
    client.off('notice', note)
    // After a failed statement, PostgreSQL answers COMMIT with ROLLBACK.
    if (results.at(-1)?.command !== 'COMMIT') throw unusable(this.#url, new Error('the change was rolled back'))
    // The warning says that a synchronous standby has not confirmed the change in time.
    if (warnings.length > 0) throw unusable(this.#url, new Error(warnings.join('; ')))
    if (tables.length > 0) this.confirmed(results[1]!.rows[0])
  }

  #failed(error: unknown): StoreError {
    const failure = unusable(this.#url, error)
    this.#monitor.failed(failure)
    return failure
  }

  watch(tables: readonly TableName[], forget: () => void): () => void {
    return this.#monitor.watch(tables, forget)
  }

  async snapshot<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    const client = await this.#connectPatient().catch(error => Promise.reject(unusable(this.#url, error)))
    try {
      await execute(client, this.#url, 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
      return await work(statements(client, this.#url))
    } finally {
      client.end().catch(() => {})
    }
  }

  async backup(): Promise<void> {
    const message = `the store is the database ${this.#url}: back up the database with pg_dump, and copy data_dir while the service is stopped`
    throw new StoreError('SLUICE_STORE_UNUSABLE', message)
  }

  health(): StoreHealth {
    return this.#monitor.health()
  }

  async close(): Promise<void> {
    while (this.#last.size > 0) await Promise.all(this.#last.values())
    if (this.#isClosed) return
    this.#isClosed = true
    await this.#pool.end()
    for (const end of this.#ends) await end()
  }
}

function newName(): string {
  return randomBytes(8).toString('hex')
}

/** The lock that serializes the changes of an owner across all nodes. */
function lockOf(owner: string): string {
  return `SELECT pg_advisory_xact_lock(${createHash('sha256').update(owner).digest().readBigInt64BE()})`
}

function statements(client: Pool | ClientBase, url: string, changed?: Set<string>): Sql {
  const run = async (text: string, values: readonly Value[]): Promise<QueryResult> => {
    const table = changed && changedBy(text)
    if (table) changed.add(table)
    return await execute(client, url, text, values)
  }
  return {
    all: async <R>(text: string, ...values: readonly Value[]) => (await run(text, values)).rows as R[],
    get: async <R>(text: string, ...values: readonly Value[]) => (await run(text, values)).rows[0] as R | undefined,
    run: async (text, ...values) => (await run(text, values)).rowCount ?? 0,
  }
}

async function execute(
  client: Pool | ClientBase,
  url: string,
  text: string,
  values?: readonly Value[],
): Promise<QueryResult> {
  try {
    return await (client as Pool).query(text, values && [...values])
  } catch (error) {
    throw isMistake(error) ? error : unusable(url, error)
  }
}

/** Whether the data, a constraint or the syntax made the statement fail. If false, the store itself failed. */
function isMistake(error: unknown): boolean {
  return /^(22|23|42)[0-9A-Z]{3}$/.test(errorCode(error) ?? '')
}

function unusable(url: string, error: unknown): StoreError {
  if (error instanceof StoreError) return error
  const reasons = error instanceof AggregateError ? error.errors.map(errorText).join('; ') : errorText(error)
  return new StoreError('SLUICE_STORE_UNUSABLE', `the store ${url} cannot be used: ${reasons}`, error)
}
