import { closeSync, openSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { errorCode, errorText, isMissing } from '../../../core/errors.js'
import { makeFolder } from '../../../lib/files/make-folder.js'
import { every } from '../../../lib/time.js'
import { StoreMonitor } from './monitor.js'
import { KEY_MIGRATIONS, MIGRATIONS } from './schema.js'
import { loadSqlite, SqliteConnection, type Writer } from './sqlite-connection.js'
import { WriterThread } from './sqlite-thread.js'
import { changedBy, type Sql, type Store, StoreError, type StoreHealth, type TableName, type Value } from './store.js'

/**
 * The embedded store is one file. Changes run one after the other on one connection. In a running service, that
 * connection is in a thread of its own. Changes that wait at the same time share a commit, and thus one sync of the
 * disk. Reads outside of changes use a second connection, which sees committed data. Other processes, such as `sluice
 * admin`, may open the file as well.
 */

const FILE = 'store.sqlite'
/** How long a change waits for a change of another process. */
const BUSY_MS = 5000
/** Interval of the checks for changes by other processes. */
const POLL_MS = 1000
/** Checking a larger file is logged, because it takes seconds. */
const LONG_CHECK_BYTES = 256 * 1024 * 1024
const CACHE = `PRAGMA cache_size = -${32 * 1024}`

interface Waiting {
  readonly work: (sql: Sql) => Promise<unknown>
  readonly resolve: (value: unknown) => void
  readonly reject: (error: unknown) => void
}

/** Settings of a database file. */
interface Purpose {
  readonly migrations: readonly string[]
  readonly durability: string
  readonly isThreaded?: true
}

export const STORE: Purpose = { migrations: MIGRATIONS, durability: 'PRAGMA synchronous = FULL' }
/** Settings for a running service, whose event loop must not wait for the disk. */
export const SERVED_STORE: Purpose = { ...STORE, isThreaded: true }
/** Idempotency keys: each request changes them twice. A power failure may undo the last changes. */
export const KEYS: Purpose = {
  migrations: KEY_MIGRATIONS,
  durability: 'PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 8000',
}

/** Opens the store in `folder`, which is created if it is missing. Throws StoreError. */
export async function openSqlite(
  folder: string,
  log?: Logger,
  load = loadSqlite,
  { migrations, durability, isThreaded } = STORE,
): Promise<SqliteStore> {
  const path = join(folder, FILE)
  const opened: Writer[] = []
  try {
    await makeFolder(folder, 0o700)
    create(path)
    const Sqlite = await load()
    const writer = isThreaded ? new WriterThread(path) : new SqliteConnection(new Sqlite(path))
    opened.push(writer)
    await writer.exec(`PRAGMA busy_timeout = ${BUSY_MS}; PRAGMA journal_mode = WAL; ${durability}; ${CACHE}`)
    await migrate(writer, migrations)
    const openReader = () => {
      const reader = new SqliteConnection(new Sqlite(path, { readOnly: true }))
      reader.exec(`PRAGMA busy_timeout = ${BUSY_MS}; ${CACHE}`)
      return reader
    }
    const reader = openReader()
    opened.push(reader)
    await requireWhole(writer, path, log)
    return new SqliteStore(path, writer, reader, openReader, await dataVersion(writer), log)
  } catch (error) {
    for (const one of opened) await one.close()
    throw unusable(path, error)
  }
}

/**
 * Creates the file with its mode, because SQLite would take the mode from the umask. SQLite gives the same mode to its
 * other files. If the file exists, it is not opened, because closing it would release the locks that this process holds
 * on it.
 */
function create(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error
  }
}

/** Runs the migrations that are missing, once for all processes. */
async function migrate(writer: Writer, migrations: readonly string[]): Promise<void> {
  const version = async () =>
    ((await writer.execute('get', 'PRAGMA user_version', [])) as { user_version: number }).user_version
  if ((await version()) >= migrations.length) return
  await writer.exec('BEGIN IMMEDIATE')
  const before = await version()
  for (const text of migrations.slice(before)) await writer.exec(text)
  await writer.exec(`PRAGMA user_version = ${Math.max(before, migrations.length)}; COMMIT`)
}

/** Reads the whole file on the writer's connection, so the event loop of a service does not wait for the disk. */
async function requireWhole(writer: Writer, path: string, log: Logger | undefined): Promise<void> {
  const { size } = statSync(path)
  if (size > LONG_CHECK_BYTES) log?.info({ path, bytes: size }, 'checking the store, which reads the whole file')
  const { quick_check } = (await writer.execute('get', 'PRAGMA quick_check(1)', [])) as { quick_check: string }
  if (quick_check !== 'ok') throw damaged(path, quick_check)
}

/** Returns a number that changes with each commit of another process; undefined if the number cannot be read. */
async function dataVersion(writer: Writer): Promise<number | undefined> {
  try {
    return ((await writer.execute('get', 'PRAGMA data_version', [])) as { data_version: number }).data_version
  } catch {
    return undefined
  }
}

export class SqliteStore implements Store {
  readonly #path: string
  readonly #writer: Writer
  readonly #reads: Sql
  readonly #monitor: StoreMonitor
  readonly #reader: SqliteConnection
  readonly #openReader: () => SqliteConnection
  readonly #file: string | undefined
  readonly #stopPolling: () => void
  #waiting: Waiting[] = []
  #working: Promise<void> | undefined
  #isAway = false
  #isClosed = false
  #seen: number | undefined

  constructor(
    path: string,
    writer: Writer,
    reader: SqliteConnection,
    openReader: () => SqliteConnection,
    seen: number | undefined,
    log: Logger | undefined,
  ) {
    this.#path = path
    this.#writer = writer
    this.#monitor = new StoreMonitor(log, { path }, 'Check the disk of data_dir')
    this.#reads = statements(reader, path)
    this.#reader = reader
    this.#openReader = openReader
    this.#file = fileAt(path)
    this.#seen = seen
    this.#stopPolling = every(POLL_MS, () => void this.#poll())
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

  change<T>(_owner: string, work: (sql: Sql) => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#waiting.push({ work, resolve: resolve as (value: unknown) => void, reject })
      this.#working ??= this.#workOff()
    })
  }

  async #workOff(): Promise<void> {
    await new Promise(setImmediate)
    while (this.#waiting.length > 0) await this.#commit(this.#waiting.splice(0))
    this.#working = undefined
  }

  async #commit(group: readonly Waiting[]): Promise<void> {
    const changed = new Set<string>()
    const sql = statements(this.#writer, this.#path, changed)
    const answers: (() => void)[] = []
    let failure: StoreError | undefined
    try {
      await this.#writer.exec('BEGIN IMMEDIATE')
      for (const one of group) answers.push(await this.#do(one, sql))
      if (changed.size > 0) this.#requireInPlace()
      await this.#writer.exec('COMMIT')
      // SQLite continues to write to a file that was removed.
      if (changed.size > 0) this.#requireInPlace()
      if (changed.size > 0) this.#monitor.saved()
    } catch (error) {
      failure = await this.#failed(error)
    }
    this.#monitor.changed(changed)
    if (failure) for (const { reject } of group) reject(failure)
    else for (const answer of answers) answer()
  }

  /** Resolves with a function to call after the commit. Rejects if the store fails; the whole group then fails. */
  async #do({ work, resolve, reject }: Waiting, sql: Sql): Promise<() => void> {
    await this.#writer.exec('SAVEPOINT one')
    try {
      const value = await work(sql)
      await this.#writer.exec('RELEASE one')
      return () => resolve(value)
    } catch (error) {
      if (error instanceof StoreError) throw error
      await this.#writer.exec('ROLLBACK TO one; RELEASE one')
      return () => reject(error)
    }
  }

  async #failed(error: unknown): Promise<StoreError> {
    try {
      await this.#writer.exec('ROLLBACK')
    } catch {
      // SQLite has already rolled back, or the transaction had not begun.
    }
    this.#monitor.failed(error, this.#isAway ? 'SLUICE_STORE_REPLACED' : undefined)
    return unwritable(this.#path, error)
  }

  /** Throws StoreError if the open file was removed from its path, or replaced by another file. */
  #requireInPlace(): void {
    const now = fileAt(this.#path)
    this.#isAway = now !== undefined && this.#file !== undefined && now !== this.#file
    if (!this.#isAway) return
    const message = `the store ${this.#path} was removed or replaced while the service was using it; put the file back, or restart the service to use the file that is there now`
    throw new StoreError('SLUICE_STORE_UNUSABLE', message)
  }

  watch(tables: readonly TableName[], forget: () => void): () => void {
    return this.#monitor.watch(tables, forget)
  }

  /** If another process has changed the store, empties all caches, because the changed tables are not known. */
  async #poll(): Promise<void> {
    if (this.#working) return
    const seen = await dataVersion(this.#writer)
    if (seen !== undefined && seen === this.#seen) return
    this.#seen = seen
    this.#monitor.changed(undefined)
  }

  async snapshot<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    const reader = this.#openReader()
    try {
      reader.exec('BEGIN')
      return await work(statements(reader, this.#path))
    } finally {
      reader.close()
    }
  }

  async backup(folder: string): Promise<void> {
    const path = join(folder, FILE)
    try {
      await makeFolder(folder, 0o700)
      await this.#reads.run('VACUUM INTO $1', path)
    } catch (error) {
      throw unusable(path, error)
    }
  }

  health(): StoreHealth {
    return this.#monitor.health()
  }

  async close(): Promise<void> {
    await this.#working
    if (this.#isClosed) return
    this.#isClosed = true
    this.#stopPolling()
    this.#reader.close()
    try {
      // Empties the log now. Node.js 20 closes the connection and removes the log only after it has garbage-collected
      // the statements.
      await this.#writer.exec('PRAGMA wal_checkpoint(TRUNCATE)')
    } catch {
      // If this fails, the next process that opens the store reads the log.
    }
    await this.#writer.close()
  }
}

function statements(connection: Writer, path: string, changed?: Set<string>): Sql {
  const execute = async (how: 'all' | 'get' | 'run', text: string, values: readonly Value[]): Promise<unknown> => {
    try {
      const table = changed && changedBy(text)
      if (table) changed.add(table)
      return await connection.execute(how, text, values)
    } catch (error) {
      throw isMistake(error) ? error : unusable(path, error)
    }
  }
  return {
    all: async <R>(text: string, ...values: readonly Value[]) => (await execute('all', text, values)) as R[],
    get: async <R>(text: string, ...values: readonly Value[]) => (await execute('get', text, values)) as R | undefined,
    run: async (text, ...values) => Number(((await execute('run', text, values)) as { changes: number }).changes),
  }
}

/** Primary result codes of SQLite: the lowest byte of `errcode`. */
const [ERROR, CORRUPT, CONSTRAINT, MISMATCH, NOTADB] = [1, 11, 19, 20, 26] as const

function resultOf(error: unknown): number | undefined {
  const { errcode } = (error ?? {}) as { errcode?: number }
  return errcode === undefined ? undefined : errcode & 0xff
}

/** Whether the statement caused the error. If false, the store failed. */
function isMistake(error: unknown): boolean {
  return ([ERROR, CONSTRAINT, MISMATCH] as (number | undefined)[]).includes(resultOf(error))
}

function unusable(path: string, error: unknown): StoreError {
  if (error instanceof StoreError) return error
  const result = resultOf(error)
  if (result === CORRUPT || result === NOTADB) return damaged(path, errorText(error))
  return new StoreError('SLUICE_STORE_UNUSABLE', `the store ${path} cannot be used: ${errorText(error)}`, error)
}

function damaged(path: string, why: string): StoreError {
  const advice = 'Check the disk, and put a backup in place with "sluice admin restore --replace"'
  return new StoreError('SLUICE_STORE_DAMAGED', `the store ${path} is damaged: ${why}. ${advice}`)
}

function unwritable(path: string, error: unknown): StoreError {
  if (error instanceof StoreError && error.cause === undefined) return error
  const reason = errorText(error instanceof StoreError ? error.cause : error)
  const message = `the store ${path} cannot save changes: ${reason}. Make room on the disk, or repair the disk; the service then continues by itself`
  return new StoreError('SLUICE_STORE_UNUSABLE', message, error)
}

/** Identifies the file at a path. Returns '' if the file does not exist, or undefined if it cannot be inspected. */
function fileAt(path: string): string | undefined {
  try {
    const { dev, ino } = statSync(path, { bigint: true })
    return `${dev} ${ino}`
  } catch (error) {
    return isMissing(error) ? '' : undefined
  }
}
