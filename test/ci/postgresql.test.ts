import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import type { PostgresOptions } from '../../src/engine/config/store-options.js'
import { systemClock } from '../../src/lib/time.js'
import { Service } from '../../src/service/api/domain/service.js'
import { openPostgres } from '../../src/service/api/store/postgres.js'
import { MIGRATIONS } from '../../src/service/api/store/schema.js'
import type { Store } from '../../src/service/api/store/store.js'
import { as, outcome } from '../support/api-service.js'
import { checkout } from '../support/checkout.js'
import { command } from '../support/cli.js'
import { testFolder } from '../support/folder.js'
import { inTurns } from '../support/in-turns.js'
import {
  connectTo,
  inDatabase,
  newDatabase,
  PASSWORD,
  SERVER,
  STATEMENTS,
  startPostgres,
  testStore,
} from '../support/postgres.js'
import { init, serve, stop } from '../support/served.js'
import { pipelineConfig, send, startService } from '../support/service.js'
import { put, settingOf } from '../support/settings.js'
import { until } from '../support/until.js'

const built = join(import.meta.dirname, '..')

/** Tests of the service that ask a store. With SQLite they run as unit tests. */
const SUITE = [
  ['store', 'nodes', 'transfer'].map(name => `service/api/${name}`),
  ['access', 'keys', 'people', 'pipelines', 'secrets'].map(name => `service/api/domain/${name}`),
  ['contract', 'spec'].map(name => `service/api/http/${name}`),
  ['service/serve/ingest'],
]

/** Runs tests of the service in one process, and resolves with what failed. */
async function run(names: readonly string[], folder: string, env: NodeJS.ProcessEnv): Promise<string> {
  const files = names.map(name => join(built, 'unit', `${name}.test.js`))
  const child = spawn(process.execPath, [join(built, 'support/room.js'), names[0]!, ...files], {
    cwd: checkout,
    env: { ...process.env, TAP_CWD: folder, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', text => (said += text))
  const [code] = await once(child, 'close')
  return code === 0 && /^# \{ total: \d+, pass: \d+/m.test(said) ? '' : said.slice(-20_000)
}

/** The texts of all statements in the source: what is filled in may be anything. */
function statementsOfSource(): RegExp[] {
  const folder = join(checkout, 'src/service/api')
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(path =>
    /^(domain|nodes).*\.ts$/.test(path),
  )
  const source = [...files, 'store/state.ts'].map(path => readFileSync(join(folder, path), 'utf8')).join('\n')
  const found = source.matchAll(/(['"`])(\s*(?:SELECT|INSERT|UPDATE|DELETE|WITH)\s[\s\S]*?)\1/g)
  return [...found].map(([, , text]) => {
    const parts = text!
      .replaceAll(/\s+/g, ' ')
      .trim()
      .split(/\$\{(?:[^{}]|\{[^}]*\})*\}/)
    return new RegExp(`^(.* )?${parts.map(escaped).join('.*')}`)
  })
}

const escaped = (text: string) => text.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')

t.test('the service does the same on PostgreSQL, with every statement', async t => {
  const server = await startPostgres(t)
  if (!server) return
  const folder = testFolder(t)
  const file = join(folder, 'statements')
  // With SQLite, drawn tests draw more.
  const env = { [STATEMENTS]: file, [SERVER]: JSON.stringify(server.options), SLUICE_SHORT: '1' }
  await inTurns(SUITE, 2, async names => t.equal(await run(names, folder, env), '', names.join()))
  const ran = [...new Set(readFileSync(file, 'utf8').split('\n'))]
  const statements = statementsOfSource()
  t.ok(statements.length > 60, `${statements.length} statements`)
  for (const statement of statements)
    t.ok(
      ran.some(text => statement.test(text)),
      `not one test runs ${statement.source}`,
    )
})

const quiet = pino({ enabled: false })

t.test('changes of one account at two nodes', async t => {
  const server = await startPostgres(t)
  if (!server) return
  const options = await newDatabase(server.options)
  const nodes = await Promise.all([openPostgres(options, quiet), openPostgres(options, quiet)])
  t.teardown(() => Promise.all(nodes.map(node => node.close())))
  t.same((await inDatabase(options, 'SELECT version FROM migration')).rows.length, MIGRATIONS.length, 'migrated once')
  await put(nodes[0]!, 'n', '0')
  const add = (_: unknown, i: number) =>
    nodes[i % 2]!.change('one', async sql => put(sql, 'n', String(Number(await settingOf(sql, 'n')) + 1)))
  await Promise.all(Array.from({ length: 200 }, add))
  t.equal(await settingOf(nodes[0]!, 'n'), '200')

  let heard = 0
  nodes[1]!.watch(['access_key'], () => heard++)
  const revoke = (node: Store) => node.run('DELETE FROM access_key WHERE id = $1', 'x')
  await revoke(nodes[0]!)
  await until('the other node to hear of it', () => heard > 0)
  await inDatabase(
    options,
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%change%' AND pid <> pg_backend_pid()",
  )
  heard = 0
  await until('a deaf node to forget', () => heard > 0)
  heard = 0
  await until('both to work again', () => revoke(nodes[0]!).catch(() => undefined))
  await until('the other node to hear of the next one', () => heard > 0)

  for (const lose of ['UPDATE change SET at = now()', 'TRUNCATE change']) {
    heard = 0
    await inDatabase(options, lose)
    await until('a node to notice that confirmed changes are gone', () => heard > 0)
  }

  const half = nodes[0]!.change('one', async sql => {
    await put(sql, 'n', 'half')
    await sql.run('INSERT INTO setting (name, value) VALUES ($1, $2)', 'n', '').catch(() => {})
  })
  await t.rejects(half, { message: /rolled back/ }, 'what PostgreSQL has rolled back is not acknowledged')
  t.equal(await settingOf(nodes[1]!, 'n'), '200')

  await t.rejects(nodes[0]!.backup(), { message: /back up the database with pg_dump/ })
})

t.test('a server that fails costs an error in time, and nothing that was acknowledged', async t => {
  const server = await startPostgres(t, ['-c', 'max_connections=20'])
  if (!server) return
  const options = await newDatabase(server.options)
  const logged: string[] = []
  const store = await openPostgres(options, pino({}, { write: line => logged.push(line) }))
  t.teardown(() => store.close())
  const unusable = (message: RegExp) => ({ code: 'SLUICE_STORE_UNUSABLE', message })
  const works = async (name: string) => {
    await until('the store to work', () => put(store, name, '1').catch(() => undefined))
    t.match(store.health(), { writable: true })
  }

  await put(store, 'a', '1')
  await server.kill()
  await t.rejects(put(store, 'b', '1'), unusable(/the store postgresql:\/\/sluice@.* cannot be used: /), 'killed')
  await t.rejects(settingOf(store, 'a'), unusable(/ECONNREFUSED/))
  t.match(store.health(), { writable: false })
  await server.start()
  await works('c')
  t.equal(await settingOf(store, 'a'), '1')

  process.kill(server.pid, 'SIGSTOP')
  for (const pid of backends(server.pid)) process.kill(pid, 'SIGSTOP')
  const began = performance.now()
  await t.rejects(put(store, 'd', '1'), unusable(/timeout/), 'it does not answer')
  t.ok(performance.now() - began < 20_000)
  for (const pid of [server.pid, ...backends(server.pid)]) process.kill(pid, 'SIGCONT')
  await works('e')

  await store.close()
  const others: { end(): void }[] = []
  for (let left = true; left; ) {
    const other = await connectTo(options).catch(() => undefined)
    if (other) others.push(other)
    else left = false
  }
  await t.rejects(openPostgres(options, quiet), unusable(/too many clients already/), 'connections are used up')
  for (const other of others) other.end()

  const wrong = join(testFolder(t, { wrong: 'not it' }), 'wrong')
  const refused = openPostgres({ ...options, password_file: wrong }, quiet)
  await t.rejects(refused, unusable(/password authentication failed for user "sluice"/))
  await t.rejects(openPostgres({ ...options, password_file: undefined }, quiet), unusable(/set password_file/))
  await t.rejects(openPostgres({ ...options, tls: {} }, quiet), unusable(/self-signed certificate|unable to verify/))
  await t.rejects(openPostgres({ ...options, tls: undefined }, quiet), unusable(/no encryption/))
  const strange = { ...options.tls, server_name: 'elsewhere.example' }
  await t.rejects(openPostgres({ ...options, tls: strange }, quiet), unusable(/elsewhere\.example/))
  t.notMatch(logged.join(''), PASSWORD)
  t.match(logged.join(''), /SLUICE_STORE_WRITE_FAILED/)
})

t.test('a key that one node has revoked is refused by the other within a second', async t => {
  const server = await startPostgres(t)
  if (!server) return
  process.env[SERVER] = JSON.stringify(server.options)
  t.teardown(() => delete process.env[SERVER])
  const one = await startService(join(testFolder(t), 'state'))
  t.teardown(() => one.close())
  const options = (await testStore(join(t.testdirName, 'state'))) as PostgresOptions
  const store = await openPostgres(options, quiet)
  t.teardown(() => store.close())
  const secret = Buffer.from(readFileSync(join(t.testdirName, 'state/secret'), 'latin1').trim(), 'hex')
  const machine = { clock: systemClock, random: randomBytes, log: quiet, components: [], background: false }
  const other = await Service.open({ ...machine, store, secret })
  const enterprise = one.made.enterprise_service_account
  await as(other, enterprise.key)
  await inDatabase(options, `UPDATE access_key SET revoked_at = '9' WHERE subject_id = '${enterprise.id}'`)
  t.equal(await outcome(as(other, enterprise.key)), 'done', 'nobody has notified the node')
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2100)
  t.equal(await outcome(as(other, enterprise.key)), '401 token_revoked', 'a process that was stopped')
  const { key, id } = one.made.service_account
  await as(other, key)
  const { status } = await one.send('DELETE', `/v3/service-account/${id}/key`, { key: one.made.manager.key })
  const revoked = performance.now()
  t.equal(status, 204)
  await until('the other node to refuse it', async () => (await outcome(as(other, key))) === '401 token_revoked')
  t.ok(performance.now() - revoked < 2000)

  const daemon = ['gone', 'web-1', 'e', 'a', '9', '9', '{}']
  await store.run('INSERT INTO daemon VALUES ($1, $2, $3, $4, $5, $6, $7)', ...daemon)
  await other.sweep()
  t.same(await store.all('SELECT id FROM daemon'), [], 'a report whose pipeline was removed meanwhile')

  const { manager } = one.made
  const pipeline = await one.client(manager.key).pipelines.create({ title: 'p', config: pipelineConfig() })
  const add = 'INSERT INTO daemon VALUES ($1, $2, $3, $4, $5, $6, $7)'
  for (const name of ['d1', 'd2']) await store.run(add, pipeline.id, name, ...daemon.slice(2))
  const owner = one.client(manager.key)
  const me = await as(other, manager.key)
  const lim = { type: 'throttle', inputs: ['ingest'], limit: 1, window: '1s' }
  const limited = { processors: { lim }, destinations: { out: { type: 'blackhole', inputs: ['lim'] } } }
  const { id: throttled } = await owner.pipelines.create({ title: 't', config: limited })
  await owner.accounts.setFeature('throttle', true)
  await owner.pipelines.publish(throttled)
  const uses = (result: string) => async () => (await outcome(other.pipelines.forIngest(me, throttled))) === result
  await until('the other node to use the pipeline', uses('done'))
  await owner.accounts.setFeature('throttle', false)
  await until('the other node to refuse it', uses('403 feature_not_enabled'))
  await owner.accounts.setFeature('throttle', true)
  await until('the other node to use it again', uses('done'))

  let removed: Promise<{ status: number }> | undefined
  // Saves reports in the order in which they came, while their pipeline is removed.
  await store.change('', async sql => {
    const save = (name: string) => sql.run('UPDATE daemon SET reported_at = $2 WHERE id = $1', name, '9')
    await save('d2')
    removed = one.send('DELETE', `/v3/pipeline/${pipeline.id}`, { key: manager.key })
    const waiting = 'SELECT pid FROM pg_locks WHERE NOT granted'
    await until('the removal to wait', async () => (await sql.all(waiting)).length > 0)
    await save('d1')
  })
  t.equal((await removed!).status, 204)
  t.same(await store.all('SELECT id FROM daemon'), [])
})

t.test('sluice serve over PostgreSQL', async t => {
  const server = await startPostgres(t)
  if (!server) return
  const { url, password_file, tls } = server.options
  const folder = testFolder(t)
  const store = `{ type: postgresql, url: '${url}', password_file: ${password_file}, tls: { ca_file: ${tls!.ca_file} } }`
  const served = await serve(t, folder, `  store: ${store}\n`)
  const { manager } = await init(t, served.config)
  const whoami = async () => (await send(served.url, 'GET', '/v3/user/key', { key: manager.key })).status
  t.equal(await whoami(), 200)
  t.equal((await send(served.url, 'GET', '/v3/pipeline?after=a%00', { key: manager.key })).status, 400)
  const [, admin] = /"url":"(http:[^"]*)metrics"/.exec(served.running.stderr)!
  const readiness = async () => {
    const response = await fetch(`${admin}readyz`)
    return `${response.status} ${await response.text()}`
  }
  t.match(await readiness(), /^200 .*{"id":"store","state":"ready"}/)
  await server.kill()
  t.equal(await whoami(), 503)
  const failing = /^503 .*{"id":"store","state":"failing","reason":"it cannot be read since 20[^"]*Z"}/
  await until('the service not to be ready', async () => failing.test(await readiness()))
  await server.start()
  await until('the service to continue', async () => (await whoami()) === 200)
  await until('the service to be ready', async () => (await readiness()).startsWith('200'))

  await inDatabase(server.options, 'TRUNCATE change')
  const loss =
    /^200 .*"state":"ready","reason":"changes that were confirmed between 1970-[^ ]* and 20[^ ]*Z may be lost"/
  await until('the loss of changes', async () => loss.test(await readiness()))
  const metrics = await (await fetch(`${admin}metrics`)).text()
  t.match(metrics, /^sluice_store_failed_since_timestamp_seconds 0$/m)
  t.match(metrics, /^sluice_store_lost_until_timestamp_seconds 1\d{9}/m)
  const args = readFileSync(`/proc/${served.running.child.pid}/cmdline`, 'latin1')
  t.notMatch(args + served.running.stderr, PASSWORD)

  const backup = await command(['admin', 'backup', '--config', served.config, '--to', join(folder, 'copy')])
  t.match(backup, { code: 1, stderr: /back up the database with pg_dump/ })
  const restore = await command(['admin', 'restore', '--config', served.config, '--from', join(folder, 'copy')])
  t.match(restore, { code: 1, stderr: /restore it with pg_restore or psql/ })
  // While it is stopped, no connection that ends gives its id away.
  process.kill(server.pid, 'SIGSTOP')
  const pids = [...backends(server.pid), server.pid]
  for (const pid of pids) process.kill(pid, 'SIGSTOP')
  await stop(t, served.running)
  t.match(served.running.stderr, /"msg":"ended before the store was closed/)
  for (const pid of pids) process.kill(pid, 'SIGCONT')

  const empty = await newDatabase(server.options)
  const config = join(folder, 'first.yaml')
  writeFileSync(config, `service: { data_dir: ${join(folder, 'none/yet')}, store: ${store.replace(url, empty.url)} }\n`)
  t.match(await command(['admin', 'init', '--config', config]), { code: 0 }, 'before the service ever ran')
})

/** The processes of a server, which it starts for connections. */
function backends(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim()
  return children.split(' ').map(Number)
}
