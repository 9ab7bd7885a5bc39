import { randomBytes } from 'node:crypto'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { systemClock } from '../../src/lib/time.js'
import { Service } from '../../src/service/api/domain/service.js'
import { openPostgres } from '../../src/service/api/store/postgres.js'
import { as, outcome } from '../support/api-service.js'
import { inDatabase, type PostgresServer, startPostgres } from '../support/postgres.js'
import { startProxy } from '../support/proxy.js'
import { put, settingOf } from '../support/settings.js'
import { until } from '../support/until.js'

/** Ends the connection that reads changes. */
const FORGET_FEED =
  "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT id,% FROM change %'"

/** A service that reaches a server, and later its standby, at the same address. */
async function withStandby(t: Test, primary: PostgresServer) {
  const portOf = ({ options }: PostgresServer) => Number(new URL(options.url).port)
  const standby = await primary.standby()
  const proxy = await startProxy(t, portOf(primary))
  const options = { ...primary.options, url: primary.options.url.replace(/:\d+\//, `:${proxy.port}/`) }
  const logged: string[] = []
  const log = pino({}, { write: line => logged.push(line) })
  const store = await openPostgres(options, log)
  t.teardown(() => store.close())
  const machine = { clock: systemClock, random: randomBytes, log, components: [], background: false }
  const service = await Service.open({ ...machine, store, secret: randomBytes(32) })
  const { manager } = await service.init()
  const promote = async () => {
    await inDatabase(standby.options, 'SELECT pg_promote()')
    proxy.to = portOf(standby)
    const says = (text: string) => logged.some(line => line.includes(text))
    await until('the feed to lose its connection', async () => {
      await inDatabase(primary.options, FORGET_FEED).catch(() => {})
      return says('cannot read the changes of other nodes')
    })
    await until('the changes to be read', () => says('the changes of other nodes can be read again'))
    await until('the service to work', () => put(store, 'works', '1').catch(() => undefined))
  }
  const received = async () => {
    const { rows } = await inDatabase(primary.options, 'SELECT pg_current_wal_lsn() AS place')
    const text = `SELECT pg_last_wal_replay_lsn() >= '${rows[0].place}' AS received`
    await until('the standby to have all', async () => (await inDatabase(standby.options, text)).rows[0].received)
  }
  return { standby, store, service, admin: await as(service, manager.key), promote, received, logged }
}

t.test('a synchronous standby takes over: nothing that was acknowledged is lost or comes back', async t => {
  const primary = await startPostgres(t)
  if (!primary) return
  const { store, service, admin, promote, logged } = await withStandby(t, primary)
  const wait = ["ALTER SYSTEM SET synchronous_standby_names = '*'", 'SELECT pg_reload_conf()']
  await inDatabase(primary.options, ...wait)
  const state = "SELECT count(*) AS n FROM pg_stat_replication WHERE sync_state = 'sync'"
  await until('the standby to be synchronous', async () => (await inDatabase(primary.options, state)).rows[0].n === '1')
  const kept: string[] = []
  const revoked: string[] = []
  let failed = 0
  const change = async (n: number) => {
    const { id, key } = await service.serviceAccounts.create(admin, { title: `${n}` })
    if (n % 2) return kept.push(key)
    await service.serviceAccounts.revoke(admin, id)
    return revoked.push(key)
  }
  let n = 0
  const writer = async () => {
    while (failed < 4) await change(n++).catch(() => failed++)
  }
  const writers = Promise.all(Array.from({ length: 4 }, writer))
  await until('some changes', () => kept.length > 10)
  await primary.kill()
  await writers
  await promote()
  for (const key of kept) t.equal(await outcome(as(service, key)), 'done')
  for (const key of revoked) t.equal(await outcome(as(service, key)), '401 token_revoked')
  t.equal(store.health().lost, undefined)
  t.notMatch(logged.join(''), /SLUICE_STORE_CHANGES_LOST/)

  store.confirmed({ id: 1_000_000, at: Date.now() / 1000 })
  await until('the loss of an own change to be noticed', () => store.health().lost)
})

t.test('an asynchronous standby takes over: the service notices what was lost', async t => {
  const primary = await startPostgres(t)
  if (!primary) return
  const { standby, store, service, admin, promote, received, logged } = await withStandby(t, primary)
  const accounts = service.serviceAccounts
  const before = await accounts.create(admin, { title: 'before' })
  await received()
  const replicated = Date.now()
  await standby.kill()
  const lost = await accounts.create(admin, { title: 'lost' })
  await as(service, lost.key)
  await accounts.revoke(admin, before.id)
  t.equal(await outcome(as(service, before.key)), '401 token_revoked')
  const confirmed = Date.now()
  await primary.kill()
  await standby.start()
  await promote()
  const { from, until: end } = (await until('the service to notice', () => store.health().lost))!
  t.ok(from <= replicated && confirmed <= end, `${from} ${replicated} ${confirmed} ${end}`)
  t.ok(from > replicated - 60_000, 'and not longer ago')
  t.equal(await outcome(as(service, lost.key)), '401 token_unknown', 'a cached key is not accepted')
  t.equal(await outcome(as(service, before.key)), 'done', 'what was revoked within the lag is back')
  const line = logged.find(text => text.includes('SLUICE_STORE_CHANGES_LOST'))!
  t.match(JSON.parse(line), { level: 50, from: new Date(from).toISOString(), until: new Date(end).toISOString() })
})

t.test('a standby takes over while the earlier server still runs', async t => {
  const primary = await startPostgres(t)
  if (!primary) return
  const { standby, store, promote, received } = await withStandby(t, primary)
  const many = Array.from({ length: 20 }, () => put(store, 'connected', '1'))
  await Promise.all(many)
  await received()
  await promote()
  await inDatabase(primary.options, "INSERT INTO setting VALUES ('where', 'earlier')")
  await inDatabase(standby.options, "INSERT INTO setting VALUES ('where', 'new')")
  const seen = await Promise.all(Array.from({ length: 20 }, () => settingOf(store, 'where')))
  t.same(new Set(seen), new Set(['new']), 'no connection to the earlier one is left')
})
