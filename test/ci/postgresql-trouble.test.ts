import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import type { PostgresOptions } from '../../src/engine/config/store-options.js'
import { systemClock } from '../../src/lib/time.js'
import { Service } from '../../src/service/api/domain/service.js'
import { openPostgres } from '../../src/service/api/store/postgres.js'
import { as, outcome } from '../support/api-service.js'
import { fill, mayMount } from '../support/mounts.js'
import { inDatabase, newDatabase, startPostgres } from '../support/postgres.js'
import { startProxy } from '../support/proxy.js'
import { put, settingOf } from '../support/settings.js'
import { until } from '../support/until.js'

const quiet = pino({ enabled: false })
/** How long a request may take: for its turn, a connection, each statement and the commit. */
const MOST_MS = 20_000

const unusable = (message = /cannot be used/) => ({ code: 'SLUICE_STORE_UNUSABLE', message })

async function inTime(t: Test, work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  const took = performance.now() - began
  t.ok(took < MOST_MS, `it took ${took} ms`)
  return took
}

/** A server behind a proxy. */
async function behindProxy(t: Test, database: PostgresOptions) {
  const proxy = await startProxy(t, Number(new URL(database.url).port))
  return { proxy, options: { ...database, url: database.url.replace(/:\d+\//, `:${proxy.port}/`) } }
}

t.test('its disk is full', async t => {
  if (!mayMount()) return t.pass('needs a disk of its own', { skip: true })
  const server = await startPostgres(t, ['-c', 'max_wal_size=32MB', '-c', 'min_wal_size=32MB'], '160m')
  if (!server) return
  const store = await openPostgres(server.options, quiet)
  t.teardown(() => store.close())
  const acknowledged: string[] = []
  const filler = join(server.folder, 'filler')
  for (let round = 0; round < 2; round++) {
    fill(filler)
    let error: unknown
    for (let i = 0; !error && i < 2000; i++) {
      const name = `${round} ${i}`
      await inTime(t, () =>
        put(store, name, randomBytes(20_000).toString('base64')).then(
          () => acknowledged.push(name),
          failure => (error = failure),
        ),
      )
    }
    t.match(error, unusable(/No space left on device|terminat|closed|ECONN/), `after ${acknowledged.length} changes`)
    t.match(store.health(), { writable: false })
    rmSync(filler)
    // A full disk of its log ends the server.
    if (server.child.exitCode !== null) await server.start()
    await until('the store to work', () => put(store, `${round}`, '').catch(() => undefined))
    t.match(store.health(), { writable: true })
    acknowledged.push(`${round}`)
  }
  const kept = await store.all<{ name: string }>('SELECT name FROM setting ORDER BY name')
  const names = new Set(kept.map(({ name }) => name))
  t.same(
    acknowledged.filter(name => !names.has(name)),
    [],
    'nothing that was acknowledged is lost',
  )
})

t.test('it is slow', async t => {
  const server = await startPostgres(t)
  if (!server) return
  const { proxy, options } = await behindProxy(t, await newDatabase(server.options))
  const store = await openPostgres(options, quiet)
  t.teardown(() => store.close())
  proxy.delayMs = 400
  t.ok((await inTime(t, () => put(store, 'a', '1'))) > 800, 'a change waits')
  t.equal(await settingOf(store, 'a'), '1')
  proxy.delayMs = 10_000
  await inTime(t, () => t.rejects(put(store, 'b', '1'), unusable(/timeout/i), 'but not for ever'))
  await inTime(t, () => t.rejects(settingOf(store, 'b'), unusable(/timeout/i)))
  const many = Array.from({ length: 30 }, (_, i) => put(store, 'c', `${i}`))
  await inTime(t, () => Promise.all(many.map(one => t.rejects(one, unusable()))))
  proxy.delayMs = 0
  await until('the store to work', () => put(store, 'd', '1').catch(() => undefined))
})

t.test('the answer to a commit is lost', async t => {
  const server = await startPostgres(t)
  if (!server) return
  const { proxy, options } = await behindProxy(t, await newDatabase(server.options))
  const store = await openPostgres(options, quiet)
  t.teardown(() => store.close())
  let losing = false
  const change = store.change.bind(store)
  store.change = (owner, work) =>
    change(owner, async sql => {
      const done = await work(sql)
      proxy.swallows = losing
      return done
    })
  const secret = randomBytes(32)
  const machine = { clock: systemClock, random: randomBytes, log: quiet, components: [], background: false }
  const service = await Service.open({ ...machine, store, secret })
  const { manager } = await service.init()
  const principal = await as(service, manager.key)
  const accounts = service.serviceAccounts
  const loses = async (work: () => Promise<unknown>) => {
    losing = true
    await inTime(t, () => t.rejects(work(), unusable(/timeout/i)))
    losing = false
    proxy.swallows = false
    await until('the store to work', () => accounts.list(principal, { limit: 1 }).catch(() => undefined))
  }
  const known = new Set((await accounts.list(principal, { limit: 50 })).items.map(({ id }) => id))
  await loses(() => accounts.create(principal, { title: 'never shown' }))
  const made = (await accounts.list(principal, { limit: 50 })).items.filter(({ id }) => !known.has(id))
  t.match(made, [{ title: 'never shown' }], 'it is there, and nobody has its key')
  await accounts.remove(principal, made[0]!.id)

  const { id, key } = await accounts.create(principal, { title: 'rotated' })
  await as(service, key)
  await loses(() => accounts.rotate(principal, id, {}))
  t.equal(await outcome(as(service, key)), '401 token_revoked', 'the earlier key has ended')
  const again = await accounts.rotate(principal, id, {})
  await as(service, again.key)

  await loses(() => accounts.revoke(principal, id))
  t.equal(await outcome(as(service, again.key)), '401 token_revoked', 'a key whose end was not confirmed has ended')
})

t.test('a commit that no standby confirms has failed, and may be done later', async t => {
  const server = await startPostgres(t)
  if (!server) return
  const options = await newDatabase(server.options)
  // Makes the tables. Of two old changes, the first is removed.
  await (await openPostgres(options, quiet)).close()
  const old = "INSERT INTO change (at, node, tables) VALUES (now() - interval '1 day', 'other', 'account')"
  await inDatabase(options, old, old)
  const store = await openPostgres(options, quiet)
  t.teardown(() => store.close())
  const waitFor = (standby: string) =>
    inDatabase(options, `ALTER SYSTEM SET synchronous_standby_names = '${standby}'`, 'SELECT pg_reload_conf()')
  let heard = 0
  store.watch(['person'], () => heard++)
  const make = (name: string) =>
    store.change('', async sql => {
      await sql.run('DELETE FROM person')
      return await put(sql, name, '1')
    })
  const left = async () => (await inDatabase(options, 'SELECT id FROM change')).rows.length
  await until('old changes to be removed', async () => (await left()) === 1)
  const waiting = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
  const waits = async () => (await inDatabase(options, `SELECT pid ${waiting}`)).rows.length > 0
  const cancel = () => inDatabase(options, `SELECT pg_cancel_backend(pid) ${waiting}`)
  await waitFor('nobody')
  let made = { done: true, change: Promise.resolve() as Promise<unknown> }
  await until('a commit to wait', async () => {
    if (made.done) {
      heard = 0
      const one = { done: false, change: make('one') }
      one.change.then(() => (one.done = true)).catch(() => {})
      made = one
    }
    return await waits()
  })
  await cancel()
  await t.rejects(made.change, unusable(/canceling wait for synchronous replication/), 'an operator has ended the wait')
  // It may be read as a change of another node before it fails here: the caches are emptied once or twice.
  t.ok(heard > 0, 'the caches were emptied')
  t.equal(await settingOf(store, 'one'), '1')
  heard = 0
  const late = make('two')
  late.catch(() => {})
  await until('the commit to wait', waits)
  await inTime(t, () => t.rejects(late, unusable(/timeout/i)))
  t.equal(await settingOf(store, 'two'), undefined)
  t.ok(heard > 0, 'the caches were emptied')
  heard = 0
  await cancel()
  await until('the caches to be emptied again', () => heard > 0)
  await until('the change to be there', async () => (await settingOf(store, 'two')) === '1')
  await waitFor('')
  await until('the store to work', () => make('three').catch(() => undefined))
})
