import { randomBytes, randomInt } from 'node:crypto'
import { tmpdir } from 'node:os'
import { pino } from 'pino'
import { components } from '../src/components/list.js'
import type { PostgresOptions } from '../src/engine/config/store-options.js'
import { systemClock } from '../src/lib/time.js'
import { Service } from '../src/service/api/domain/service.js'
import { openPostgres } from '../src/service/api/store/postgres.js'
import { openSqlite, SERVED_STORE } from '../src/service/api/store/sqlite.js'
import type { Store } from '../src/service/api/store/store.js'
import { NONE, programOptions } from '../test/support/program-options.js'
import { pipelineConfig } from '../test/support/service.js'
import { benchApp } from './api-app.js'
import { median } from './measure.js'
import { workFolder } from './work.js'

/**
 * How long calls of the API take with 1,000 pipelines, and with many: milliseconds, medians of 60. Accounts have the
 * most pipelines that are possible, and five keys for each. Both stores are asked in turns, so that a machine that is
 * busier for a while changes both times.
 */

const USAGE = `Usage: node dist/bench/sizes.js [options]

  --pipelines N           how many in the larger store (default: 200000)
  --url URL               an empty database of PostgreSQL for the larger store (default: SQLite)
  --few-url URL           another one for the smaller store
  --password-file FILE    their password
  --ca FILE               the certificate authority of their certificate
`
const { options } = programOptions(
  { pipelines: 200_000, url: NONE, 'few-url': NONE, 'password-file': NONE, ca: NONE },
  USAGE,
)
const [PIPELINES, KEYS] = [200, 1000] as const
const FEW_ACCOUNTS = 5
const TIMES = 60
/** Of one statement: PostgreSQL ends those of more than 5 s. */
const ROWS = 5000

const log = pino({ enabled: false })
const { url, 'few-url': fewUrl, 'password-file': password_file, ca: ca_file } = options
if (Boolean(url) !== Boolean(fewUrl)) throw new Error('--url and --few-url belong together')
const unlimited = { limit: 1e9, windowMs: 1000 }
const rates = { requestsPerKey: unlimited, failedTries: unlimited, changes: unlimited, changesOfAccount: unlimited }

/** A service with this many accounts. */
interface Filled {
  readonly accounts: number
  readonly app: Awaited<ReturnType<typeof benchApp>>
  readonly key: string
  /** Empties the caches, which would otherwise hold all of the smaller store. */
  forget(): void
  close(): Promise<void>
}

/** As SQL, of the number `i` of a row, or of that many for each of another kind. */
const id = (kind: string, of = 1) => `'${kind.repeat(14)}' || (1000000000 + i / ${of})`
const idOf = (kind: string, i: number) => `${kind.repeat(14)}${1_000_000_000 + i}`
const now = `'${new Date().toISOString()}'`
/** The hashes of keys are spread evenly, and inserted in their order, which takes a tenth of the time. */
const step = Math.floor(2 ** 32 / (KEYS * (FEW_ACCOUNTS + options.pipelines / PIPELINES)))
const hash = url
  ? `lpad(to_hex(i * ${step}), 8, '0') || md5(i::text) || substr(md5('x' || i), 9)`
  : `printf('%08x', i * ${step}) || lower(hex(randomblob(28)))`
const config = `'${JSON.stringify(pipelineConfig())}'`
const report = `'{"host":"h","version":"1.0.0","revision":1,"health":"ready","totals":{}}'`

const [ofKey, ofPipeline] = [id('a', KEYS), id('a', PIPELINES)]
const entry = `'{"actor":{"type":"command","id":"x","email":"","key_id":null},"target":{"type":"pipeline","id":"x"},"details":{}}'`

/** Of each table: how many rows an account has, their columns, and the values. `$3` is the enterprise. */
const TABLES: Readonly<Record<string, readonly [rows: number, columns: string, values: string]>> = {
  account: [
    1,
    'id, enterprise_id, short_id, title, features, created_at',
    `${id('a')}, $3, 's' || i, 'a' || i, '{}', ${now}`,
  ],
  person: [
    1,
    'id, enterprise_id, account_id, email, title, role, created_at',
    `${id('e')}, $3, ${id('a')}, 'u' || i || '@example.com', 'u', 'manager', ${now}`,
  ],
  service_account: [
    KEYS,
    'id, owner_id, enterprise_id, account_id, title, scopes, key_id, created_at',
    `${id('b')}, ${ofKey}, $3, ${ofKey}, 's' || i, '["pipeline:read"]', ${id('c')}, ${now}`,
  ],
  access_key: [
    KEYS,
    'id, hash, type, subject_id, enterprise_id, account_id, title, created_at',
    `${id('c')}, ${hash}, 'service_account', ${id('b')}, $3, ${ofKey}, '', ${now}`,
  ],
  key_use: [KEYS, 'key_id, at', `${id('c')}, ${now}`],
  pipeline: [
    PIPELINES,
    'id, enterprise_id, account_id, title, revision, published_revision, published_at, version, created_at, updated_at',
    `${id('d')}, $3, ${ofPipeline}, 'p' || i, 1, 1, ${now}, 1, ${now}, ${now}`,
  ],
  revision: [
    PIPELINES,
    'pipeline_id, revision, account_id, bytes, created_at, created_by, config',
    `${id('d')}, 1, ${ofPipeline}, 100, ${now}, '{"id":"x","email":"x"}', ${config}`,
  ],
  daemon: [
    PIPELINES,
    'pipeline_id, id, enterprise_id, account_id, registered_at, reported_at, report',
    `${id('d')}, 'd', $3, ${ofPipeline}, ${now}, ${now}, ${report}`,
  ],
  audit: [
    PIPELINES,
    'id, owner_id, enterprise_id, account_id, at, action, entry',
    `${id('d')}, ${ofPipeline}, $3, ${ofPipeline}, ${now}, 'pipeline.create', ${entry}`,
  ],
}

async function fill(store: Store, enterprise: string, accounts: number): Promise<void> {
  const numbers =
    'WITH RECURSIVE n(i) AS (SELECT CAST($1 AS bigint) UNION ALL SELECT i + 1 FROM n WHERE i + 1 < CAST($2 AS bigint))'
  for (const [table, [rows, columns, values]] of Object.entries(TABLES)) {
    const of = values.includes('$3') ? [enterprise] : []
    for (let first = 0; first < accounts * rows; first += ROWS) {
      const text = `INSERT INTO ${table} (${columns}) ${numbers} SELECT ${values} FROM n`
      await store.run(text, first, Math.min(first + ROWS, accounts * rows), ...of)
    }
    // As PostgreSQL does by itself after a while.
    await store.run(`ANALYZE ${table}`)
  }
}

async function filled(accounts: number, place: string | undefined): Promise<Filled> {
  const given = { type: 'postgresql', url: place, password_file, tls: ca_file && { ca_file } } as PostgresOptions
  const store: Store = place
    ? await openPostgres(given, log)
    : await openSqlite(workFolder(tmpdir(), 'sizes'), log, undefined, SERVED_STORE)
  const forgets: (() => void)[] = []
  const watch = store.watch.bind(store)
  store.watch = (tables, forget) => {
    forgets.push(forget)
    return watch(tables, forget)
  }
  const service = await Service.open({
    store,
    secret: randomBytes(32),
    clock: systemClock,
    random: randomBytes,
    log,
    components,
    background: false,
    limits: { ...rates, pipelines: 1e9, serviceAccounts: 1e9, accounts: 1e9 },
  })
  const app = await benchApp(service, log)
  const made = await service.init()
  await fill(store, made.enterprise.id, accounts)
  const close = async () => {
    await app.close()
    await service.close()
    await store.close()
  }
  const forget = () => {
    for (const forget of forgets) forget()
  }
  return { accounts, app, key: made.enterprise_service_account.key, forget, close }
}

interface Asked {
  readonly method?: 'GET' | 'POST'
  readonly path: string
  /** Undefined: by the enterprise. */
  readonly account?: number
  readonly json?: object
  readonly token?: string
}

async function ask({ app, key, forget }: Filled, asked: Asked): Promise<number> {
  const { method = 'GET', path, account, json, token = key } = asked
  const delegate = account === undefined ? {} : { 'x-delegate-account-id': idOf('a', account) }
  const headers = { authorization: `Token ${token}`, ...delegate }
  forget()
  const began = performance.now()
  const { statusCode, body } = await app.inject({ method, url: `/v3/${path}`, headers, ...(json && { payload: json }) })
  const took = performance.now() - began
  if (statusCode >= 300 && token === key) throw new Error(`${method} ${path}: ${statusCode} ${body}`)
  return took
}

/** Calls in a store of that many accounts; each at another place. */
const calls = (accounts: number): Readonly<Record<string, () => Asked>> => {
  const some = () => randomInt(accounts)
  const within = (kind: string, rows: number, path: (id: string) => string) => () => {
    const account = some()
    return { account, path: path(idOf(kind, account * rows + randomInt(rows))) }
  }
  const pipeline = (path: string) => within('d', PIPELINES, id => `pipeline/${id}${path}`)
  const listed = (path: string) => () => ({ account: some(), path })
  const after = (kind: string, rows: number, path: string) => () => ({
    path: `${path}?after=${idOf(kind, randomInt(accounts * rows))}`,
  })
  return {
    'an unknown key': () => ({ path: 'auth/token', token: `sts_${randomBytes(20).toString('hex')}` }),
    'a key': listed('auth/token'),
    account: listed('account'),
    accounts: after('a', 1, 'enterprise/account'),
    pipeline: pipeline(''),
    'published revision': pipeline('/published'),
    revisions: pipeline('/revision'),
    revision: pipeline('/revision/1'),
    pipelines: listed('pipeline'),
    'all pipelines': after('d', PIPELINES, 'pipeline'),
    'service account': within('b', KEYS, id => `service-account/${id}`),
    'service accounts': listed('service-account'),
    'service accounts of the enterprise': () => ({ path: 'service-account' }),
    users: listed('user'),
    user: within('e', 1, id => `user/${id}`),
    secrets: listed('secret'),
    audit: listed('audit'),
    'audit of the enterprise': () => ({ path: 'audit' }),
    fleet: listed('fleet'),
    'all of the fleet': () => ({ path: 'fleet' }),
    'create a pipeline': () => ({
      method: 'POST',
      account: some(),
      path: 'pipeline',
      json: { title: 'x', config: pipelineConfig() },
    }),
    'create a service account': () => ({ method: 'POST', account: some(), path: 'service-account', json: {} }),
    'create an account': () => ({ method: 'POST', path: 'enterprise/account', json: { title: 'x' } }),
  }
}

const stores = [
  await filled(FEW_ACCOUNTS, fewUrl),
  await filled(Math.round(options.pipelines / PIPELINES), url),
] as const
const all = stores.map(({ accounts }) => calls(accounts))
const times = new Map(Object.keys(all[0]!).map(name => [name, stores.map(() => [] as number[])]))
for (let i = -10; i < TIMES; i++) {
  // In random order, since the collection of garbage would otherwise often be part of the same call.
  const turns = [...times].flatMap(([name, lists]) => lists.map((list, n) => ({ name, list, n, at: Math.random() })))
  for (const { name, list, n } of turns.sort((a, b) => a.at - b.at)) {
    const took = await ask(stores[n]!, all[n]![name]!())
    if (i >= 0) list.push(took)
  }
}
const rows = [...times].map(([call, lists]) => {
  const [few, many] = lists.map(median) as [number, number]
  return [call, few, many, many / few] as const
})
process.stdout.write(`${stores.map(({ accounts }) => PIPELINES * accounts).join(' ')} ratio\n`)
for (const [call, ...numbers] of rows.sort((a, b) => b[3] - a[3]))
  process.stdout.write(`${numbers.map(number => number.toFixed(2)).join(' ')} ${call}\n`)
for (const { close } of stores) await close()
