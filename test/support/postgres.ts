import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  appendFileSync,
  chmodSync,
  chownSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import pg from 'pg'
import { pino } from 'pino'
import type { Test } from 'tap'
import type { PostgresOptions, StoreOptions } from '../../src/engine/config/store-options.js'
import { openPostgres } from '../../src/service/api/store/postgres.js'
import { openSqlite } from '../../src/service/api/store/sqlite.js'
import type { Store } from '../../src/service/api/store/store.js'
import { HOST, ownPort } from './address.js'
import { bound } from './bound.js'
import { makeCertificates } from './certificates.js'
import { Mounts } from './mounts.js'
import { needs } from './needs.js'
import { until } from './until.js'

/** Options of a store, as JSON: tests of the service then use a new database of that server for each store. */
export const SERVER = 'SLUICE_TEST_POSTGRES'
/** A file that gets each statement of such a test, of either database. */
export const STATEMENTS = 'SLUICE_TEST_STATEMENTS'

const USER = 'sluice'
export const PASSWORD = 'the password of the database'

/** A real server at HOST with TLS and SCRAM. */
export interface PostgresServer {
  /** Of a database that exists. */
  readonly options: PostgresOptions
  readonly folder: string
  readonly child: ChildProcess
  readonly pid: number
  /** Ends it at once, as a crash does. */
  kill(): Promise<void>
  /** Starts it again after `kill`. */
  start(): Promise<void>
  /** Starts another server, which follows this one. */
  standby(): Promise<PostgresServer>
}

/**
 * Starts a server with a folder of its own, which `flags` configure, and a disk of that `size`, if it is given. Undefined:
 * there is no PostgreSQL.
 */
export async function startPostgres(
  t: Test,
  flags: readonly string[] = [],
  size?: string,
): Promise<PostgresServer | undefined> {
  const openssl = needs(t, 'openssl')
  const initdb = needs(t, 'initdb', { ...process.env, PATH: `${process.env.PATH}:${debianFolders()}` })
  if (!openssl || !initdb) return undefined
  const folder = mkdtempSync(join(tmpdir(), 'sluice-postgres-'))
  const mounts = new Mounts()
  if (size !== undefined) mounts.make(folder, size)
  const made = join(folder, 'files')
  execFileSync('mkdir', [made])
  makeCertificates(openssl, made, ['server'])
  const password = join(made, 'password')
  writeFileSync(password, `${PASSWORD}\n`, { mode: 0o600 })
  // PostgreSQL refuses to run as root.
  const isRoot = process.getuid!() === 0
  if (isRoot)
    for (const path of [folder, made, ...readdirSync(made).map(name => join(made, name))]) chownSync(path, 65534, 65534)
  chmodSync(join(made, 'server.key'), 0o600)
  const as = isRoot ? ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'] : ['env']
  const data = join(folder, 'data')
  // Its own order is not that of the bytes.
  const locale = ['--encoding=UTF8', '--locale=C.UTF-8', '--locale-provider=icu', '--icu-locale=en']
  const own = [`--username=${USER}`, `--pwfile=${password}`, '--auth=scram-sha-256', '--no-sync']
  execFileSync(as[0]!, [...as.slice(1), initdb, '-D', data, ...own, ...locale], { stdio: 'pipe', cwd: folder })
  const everybody = ['all', 'replication'].map(what => `hostssl ${what} all all scram-sha-256\n`)
  writeFileSync(join(data, 'pg_hba.conf'), everybody.join(''))
  const settings = {
    listen_addresses: HOST,
    unix_socket_directories: '',
    ssl: 'on',
    ssl_cert_file: join(made, 'server.pem'),
    ssl_key_file: join(made, 'server.key'),
    max_connections: 200,
    fsync: 'off',
    autovacuum: 'off',
  }
  const given = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const servers: PostgresServer[] = []
  // libpq looks for certificates of its user.
  const environment = { cwd: folder, env: { ...process.env, HOME: folder } }
  const program = (name: string) => join(dirname(realpathSync(initdb)), name)
  async function started(data: string): Promise<PostgresServer> {
    const port = await ownPort()
    const options: PostgresOptions = {
      type: 'postgresql',
      url: `postgresql://${USER}@${HOST}:${port}/postgres`,
      password_file: password,
      tls: { ca_file: join(made, 'ca.pem') },
    }
    const server = { options, folder, child: undefined as unknown as ChildProcess, pid: 0, kill, start, standby }
    let said = ''
    async function start() {
      const command = [...as.slice(1), program('postgres'), '-D', data, '-p', `${port}`, ...given, ...flags]
      server.child = spawn(...bound(as[0]!, command), { stdio: ['ignore', 'ignore', 'pipe'], ...environment })
      server.pid = server.child.pid!
      server.child.stderr!.setEncoding('utf8').on('data', text => {
        said = (said + text).slice(-4000)
      })
      const ended = () => server.child.exitCode !== null || server.child.signalCode !== null
      await until('PostgreSQL to answer', async () => ended() || (await answers(options)), { show: () => said })
      if (ended()) throw new Error(`PostgreSQL ended at its start: ${said}`)
    }
    async function kill() {
      const { child } = server
      if (child.exitCode !== null || child.signalCode !== null) return
      const closed = once(child, 'close')
      child.kill('SIGQUIT')
      child.kill('SIGCONT')
      await closed
    }
    async function standby() {
      const copy = `${data}-${servers.length}`
      const from = `host=${HOST} port=${port} user=${USER} password='${PASSWORD}' sslmode=require`
      const command = [program('pg_basebackup'), '-D', copy, '-R', '-c', 'fast', '-d', from]
      execFileSync(as[0]!, [...as.slice(1), ...command], { stdio: 'pipe', ...environment })
      return await started(copy)
    }
    servers.push(server)
    await start()
    return server
  }
  t.teardown(async () => {
    for (const { kill } of servers) await kill()
    mounts.end()
    rmSync(folder, { recursive: true, force: true })
  })
  return await started(data)
}

function debianFolders(): string {
  try {
    return readdirSync('/usr/lib/postgresql')
      .map(version => `/usr/lib/postgresql/${version}/bin`)
      .join(':')
  } catch {
    return ''
  }
}

/** Connects as an operator does. */
export async function connectTo({ url }: PostgresOptions): Promise<{ client: pg.Client; end(): void }> {
  const { hostname, port, pathname } = new URL(url)
  const place = { host: hostname, port: Number(port), database: pathname.slice(1) }
  const socket = new Socket()
  // The certificate is not what is tested here.
  const tls = { ssl: { rejectUnauthorized: false }, stream: () => socket }
  const client = new pg.Client({ ...place, ...tls, user: USER, password: PASSWORD })
  client.on('error', () => {})
  const end = () => {
    client.end().catch(() => {})
    socket.destroy()
  }
  try {
    await client.connect()
    return { client, end }
  } catch (error) {
    end()
    throw error
  }
}

/** Runs statements and resolves with the result of the last one. */
export async function inDatabase(options: PostgresOptions, ...texts: readonly string[]): Promise<pg.QueryResult> {
  const { client, end } = await connectTo(options)
  try {
    let last: pg.QueryResult | undefined
    for (const text of texts) last = await client.query(text)
    return last!
  } finally {
    end()
  }
}

async function answers(options: PostgresOptions): Promise<boolean> {
  return await inDatabase(options, 'SELECT 1').then(
    () => true,
    () => false,
  )
}

/** A new database of that server. */
export async function newDatabase(server: PostgresOptions): Promise<PostgresOptions> {
  const name = `t${randomBytes(8).toString('hex')}`
  await inDatabase(server, `CREATE DATABASE ${name}`)
  return { ...server, url: server.url.replace(/[^/]+$/, name) }
}

const databases = new Map<string, Promise<PostgresOptions>>()

/** What the service of a test keeps its data in: the same again for the same folder. */
export async function testStore(folder: string): Promise<StoreOptions> {
  const given = process.env[SERVER]
  if (!given) return { type: 'embedded' }
  if (!databases.has(folder)) databases.set(folder, newDatabase(JSON.parse(given)))
  return await databases.get(folder)!
}

export async function openTestStore(folder: string): Promise<Store> {
  const options = await testStore(folder)
  const isEmbedded = options.type === 'embedded'
  return recorded(await (isEmbedded ? openSqlite(folder) : openPostgres(options, pino({ enabled: false }))))
}

/** The store, with each of its statements written to the file of `STATEMENTS`. */
export function recorded<S extends Store>(store: S): S {
  const file = process.env[STATEMENTS]
  if (!file) return store
  const known = new Set<string>()
  const record = (text: string) => {
    if (!known.has(text)) appendFileSync(file, `${text.replaceAll(/\s+/g, ' ').trim()}\n`)
    known.add(text)
  }
  recordCalls(store, record)
  const change = store.change.bind(store)
  store.change = (owner, work) => change(owner, sql => work(recordCalls({ ...sql }, record)))
  return store
}

function recordCalls<S extends Pick<Store, 'all' | 'get' | 'run'>>(sql: S, record: (text: string) => void): S {
  for (const name of ['all', 'get', 'run'] as const) {
    const call = sql[name].bind(sql) as (...given: unknown[]) => Promise<never>
    sql[name] = ((...given: unknown[]) => {
      record(String(given[0]))
      return call(...given)
    }) as never
  }
  return sql
}
