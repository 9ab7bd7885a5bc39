import { join } from 'node:path'
import t from 'tap'
import type { PublishedDocument } from '../../../../../src/daemon/client/documents.js'
import { ApiError } from '../../../../../src/service/api/domain/errors.js'
import { PacedWork } from '../../../../../src/service/api/domain/pipelines/paced-work.js'
import { openSqlite } from '../../../../../src/service/api/store/sqlite.js'
import { as, openService, outcome } from '../../../../support/api-service.js'
import { SERVER } from '../../../../support/postgres.js'
import { until } from '../../../../support/until.js'
import { valuesOf } from '../../../../support/values-of.js'

const PAGE = { limit: 50 }
const out = { type: 'blackhole', inputs: ['ingest'] }
const config = (n = 0) => ({ shutdown_timeout: `${n + 1} Seconds`, destinations: { out } })
const throttled = {
  processors: { lim: { type: 'throttle', inputs: ['ingest'], limit: 1, window: '1 Seconds' } },
  destinations: { out: { ...out, inputs: ['lim'] } },
}

t.test('a draft, its revisions, and the one that is published', async t => {
  const { service, first, time } = await openService(t)
  const me = await as(service, first.service_account.key)
  const { pipelines } = service
  const created = await pipelines.create(me, { title: 'one', config: config(1) })
  const { id } = created.document
  const shown = {
    id,
    account_id: first.account.id,
    title: 'one',
    config: config(1),
    revision: 1,
    published_revision: null,
  }
  t.match(created, { document: shown, etag: '"v1"' })
  t.same(await pipelines.get(me, id), created)
  t.equal(await outcome(pipelines.published(me, id)), '409 not_published')
  t.equal(await outcome(pipelines.forIngest(me, id)), '503 not_published')

  const heard: [string, number | undefined][] = []
  pipelines.onPublish = (id, published) => heard.push([id, published?.revision])
  const published = await pipelines.publish(me, id, {})
  t.match(published, { document: { ...shown, published_revision: 1 }, etag: '"v2"' })
  const taken = await pipelines.published(me, id)
  t.match(taken.document, {
    id,
    title: 'one',
    revision: 1,
    config: config(1),
    published_at: published.document.updated_at,
  })
  t.same(await pipelines.forIngest(me, id), taken.document)
  t.same(await pipelines.publish(me, id, {}), published, 'again: nothing changes')

  await time.advance(1000)
  const second = await pipelines.update(me, id, { config: config(2) })
  t.match(second, { document: { config: config(2), revision: 2, published_revision: 1 }, etag: '"v3"' })
  t.same(await pipelines.update(me, id, { config: config(2), title: 'one' }), second, 'the same again is no revision')
  t.same(await pipelines.published(me, id), taken, 'a draft is not what runs')
  await pipelines.publish(me, id, {})
  t.match(await pipelines.published(me, id), { document: { revision: 2, config: config(2) } })
  t.not((await pipelines.published(me, id)).etag, taken.etag)

  await time.advance(1000)
  await pipelines.publish(me, id, { revision: 1 })
  t.match(await pipelines.published(me, id), { document: { revision: 1, config: config(1) } }, 'rolled back')
  t.match((await pipelines.get(me, id)).document, { revision: 2, config: config(2), published_revision: 1 })
  for (const revision of [3, 0, -1, 1.5, 10_000_000_000]) {
    t.equal(await outcome(pipelines.publish(me, id, { revision })), '404 not_found')
    t.equal(await outcome(pipelines.revision(me, id, revision)), '404 not_found')
  }
  const revisions = await pipelines.revisions(me, id, PAGE)
  t.match(revisions.items, [
    { revision: 2, published: false, config: config(2), created_by: { id: first.service_account.id } },
    { revision: 1, published: true, config: config(1) },
  ])
  t.same(await pipelines.revision(me, id, 1), revisions.items[1])
  const etag = (await pipelines.published(me, id)).etag
  t.match(await pipelines.update(me, id, { title: 'two' }), { document: { title: 'two', revision: 2 } })
  t.not((await pipelines.published(me, id)).etag, etag, 'its title is part of what a daemon takes')

  const all: PublishedDocument[] = []
  for await (const each of pipelines.allPublished()) all.push(each)
  t.match(all, [{ id, revision: 1 }])
  t.equal(all.length, 1)
  await pipelines.remove(me, id)
  t.equal(await outcome(pipelines.get(me, id)), '404 not_found')
  t.equal(await outcome(pipelines.published(me, id)), '404 not_found')
  t.same(heard, [
    [id, 1],
    [id, 2],
    [id, 1],
    [id, undefined],
  ])
})

t.test('what could not run is not taken', async t => {
  const { service, first } = await openService(t, { configBytes: 20_000 })
  const me = await as(service, first.service_account.key)
  const problems = async (document: unknown): Promise<string[]> => {
    const error = await service.pipelines.create(me, { title: 'x', config: document as Record<string, unknown> }).then(
      () => t.fail('it was taken'),
      error => error,
    )
    if (!(error instanceof ApiError)) throw error
    t.match(error, { status: 400, code: 'invalid_pipeline' })
    t.equal(/There are at least \d+ errors; the first 50 are listed$/.test(error.message), error.errors.length === 50)
    return error.errors.map(({ path, message }) => `${path}: ${message}`)
  }
  const deep = JSON.parse(`{"tests":${'['.repeat(50_000)}${']'.repeat(50_000)}}`)
  const lim = throttled.processors.lim
  const table: [unknown, RegExp[]][] = [
    [{}, [/^config.destinations: there is no destination/]],
    [{ ...throttled, processors: { lim: { ...lim, windw: 1 } } }, [/^config.processors.lim.windw: unknown option/]],
    [{ ...throttled, processors: { lim: { ...lim, limit: 0 } } }, [/^config.processors.lim.limit: must be at least 1/]],
    [
      { destinations: { out: { ...out, inputs: ['x'] } } },
      [/^config.destinations.out.inputs\[0\]: there is no source/],
    ],
    [{ ...config(), sources: { ingest: { type: 'stdin' } } }, [/^config.sources.ingest: .* is built in/]],
    [{ ...config(), 'a b': 1 }, [/^config\["a b"\]: unknown option/]],
    [{ ...config(), tests: 'x'.repeat(20_000) }, [/^config: must not be larger than 20000 bytes/]],
    [
      { destinations: Object.fromEntries(Array.from({ length: 251 }, (_, i) => [`d${i}`, out])) },
      [/^config: must not have more than 250 components/],
    ],
    [deep, [/^config: must not be nested deeper than 64 levels/]],
    [{ ['x'.repeat(600)]: { ['y'.repeat(401)]: 1 } }, [/^config: must not have paths of more than 1000 characters/]],
    [
      { ['x'.repeat(600)]: { ['y'.repeat(400)]: 1 } },
      [/^config.destinations: there is no/, /^config\.x{493}: unknown/],
    ],
  ]
  for (const [document, expected] of table) t.match(await problems(document), expected)
  const named = (name: string, value: unknown) =>
    Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`${name}${i}`, value]))
  t.equal((await problems({ ...config(), ...named('option', 1) })).length, 50)
  const headers = { ...out, type: 'http', url: 'http://127.0.0.1', headers: named('x-', '${secret:9}') }
  t.equal((await problems({ destinations: { out: headers } })).length, 50, 'misplaced and literal secrets')
  t.equal((await service.pipelines.list(me, PAGE)).items.length, 0)

  const pieces = t.capture(PacedWork.prototype, 'do', PacedWork.prototype.do)
  const { document } = await service.pipelines.create(me, { title: 'x', config: config() })
  t.equal(pieces().length, 2, 'between the checks of its size and of its options the event loop is free')
  t.equal(await outcome(service.pipelines.update(me, document.id, { config: {} })), '400 invalid_pipeline')
  t.equal(await outcome(service.pipelines.update(me, document.id, { config: deep })), '400 invalid_pipeline')
  const secret = { ...config(), data_dir: '${PATH}' }
  const saved = await service.pipelines.update(me, document.id, { config: secret })
  t.same(saved.document.config, secret, 'references to the environment stay text')
})

t.test('who checks many configurations holds up nobody else', async t => {
  const work = new PacedWork()
  const order: string[] = []
  const take = (ms: number) => {
    for (const end = performance.now() + ms; performance.now() < end; );
  }
  const all = ['a1', 'a2', 'a3', 'a4', 'b1'].map(name =>
    work.do(name[0]!, () => {
      order.push(name)
      take(10)
    }),
  )
  let others = 0
  const other = setInterval(() => others++, 1)
  t.equal(await outcome(work.do('c', () => Promise.reject(new ApiError(400, 'wrong', '')))), '400 wrong')
  await Promise.all(all)
  clearInterval(other)
  t.same(order, ['a1', 'a2', 'b1', 'a3', 'a4'], 'accounts have their turns')
  t.ok(others >= 5, 'in between there is time for everything else')
  const many = Array.from({ length: 102 }, () => outcome(work.do('a', () => {})))
  t.match(await Promise.race(many.toReversed()), /^429 too_many_requests/)
  t.ok((await Promise.all(many)).filter(text => text === 'done').length >= 100)
})

t.test('changes are bounded; what ends something is not', async t => {
  const minute = { limit: 3, windowMs: 60_000 }
  const { service, first, time } = await openService(t, {
    changes: minute,
    changesOfAccount: { limit: 5, windowMs: 60_000 },
  })
  const [me, other] = [await as(service, first.manager.key), await as(service, first.service_account.key)]
  const make = (who = me) => outcome(service.pipelines.create(who, { title: 'x', config: config() }))
  const key = await service.userKeys.create(me, {})
  t.same([await make(), await make(), await make()], ['done', 'done', '429 too_many_changes'])
  t.same(
    [await make(other), await make(other), await make(other)],
    ['done', 'done', '429 too_many_changes'],
    'of the account',
  )
  t.equal(await outcome(service.userKeys.revoke(me, key.id)), 'done', 'a key can be revoked whatever happens')
  await time.advance(60_000)
  t.equal(await make(), 'done')
})

t.test('a throttle is in beta', async t => {
  const { service, first, again } = await openService(t)
  const me = await as(service, first.service_account.key)
  const manager = await as(service, first.manager.key)
  const { id } = (await service.pipelines.create(me, { title: 'x', config: throttled })).document
  const error = await service.pipelines.publish(me, id, {}).catch(error => error)
  t.match(error, {
    status: 403,
    code: 'feature_not_enabled',
    message: /run: sluice api enable throttle \(PUT \/v3\/account\/feature\/throttle\); then publish again$/,
  })
  t.equal((await service.pipelines.get(me, id)).document.published_revision, null)
  t.equal(await outcome(service.accounts.setFeature(manager, 'nope', true)), '404 not_found')
  t.equal(await outcome(service.accounts.setFeature(manager, 'toString', true)), '404 not_found')
  t.same((await service.accounts.current(me)).features, { throttle: false })
  t.same((await service.accounts.setFeature(manager, 'throttle', true)).features, { throttle: true })
  t.ok(await service.pipelines.publish(me, id, {}))
  const node = await again()
  const uses = () => Promise.all([service, node].map(one => outcome(one.pipelines.forIngest(me, id))))
  t.same(await uses(), ['done', 'done'])
  const pipelines = [{ id, title: 'x' }]
  const unused = (await service.pipelines.create(me, { title: 'draft', config: throttled })).document.id
  t.same(await service.accounts.feature(me, 'throttle'), { name: 'throttle', enabled: true, pipelines })
  t.equal(await outcome(service.accounts.feature(me, 'toString')), '404 not_found')
  const changed = await service.accounts.setFeature(manager, 'throttle', false)
  t.match(changed, { features: { throttle: false }, stopped_pipelines: pipelines })
  t.same(await service.accounts.setFeature(manager, 'throttle', false), changed, 'again: the same answer')
  t.same(await uses(), ['403 feature_not_enabled', '403 feature_not_enabled'])
  t.equal(await outcome(service.pipelines.published(me, id)), '403 feature_not_enabled')
  t.equal(await outcome(service.pipelines.publish(me, unused, {})), '403 feature_not_enabled')
  await service.pipelines.update(me, id, { config: { ...throttled, shutdown_timeout: '9s' } })
  t.equal(await outcome(service.pipelines.publish(me, id, {})), '403 feature_not_enabled')
  t.same((await service.accounts.setFeature(manager, 'throttle', true)).stopped_pipelines, [])
  t.same(await uses(), ['done', 'done'])
  t.equal((await service.pipelines.published(me, id)).document.revision, 1)
})

t.test('If-Match', async t => {
  const { service, first } = await openService(t)
  const me = await as(service, first.service_account.key)
  const { id } = (await service.pipelines.create(me, { title: 'a', config: config() })).document
  let n = 0
  const update = (ifMatch?: string) => outcome(service.pipelines.update(me, id, { title: `t${n++}` }, ifMatch))
  const failed = '412 precondition_failed'
  const table: [string | undefined, string][] = [
    ['"v1"', 'done'],
    ['"v1"', failed],
    ['"x", "v2" ', 'done'],
    ['*', 'done'],
    [undefined, 'done'],
    ['W/"v5"', failed],
    ['v5', failed],
    ['', failed],
  ]
  for (const [ifMatch, expected] of table) t.equal(await update(ifMatch), expected, String(ifMatch))
  t.equal(await outcome(service.pipelines.publish(me, id, {}, '"v1"')), failed)
  t.equal(await outcome(service.pipelines.remove(me, id, '"v1"')), failed)
  const error = await service.pipelines.remove(me, id, '"v1"').catch(error => error)
  t.equal(error.headers.etag, '"v5"')
  const race = await Promise.all(
    [1, 2, 3].map(i => outcome(service.pipelines.update(me, id, { title: `r${i}` }, '"v5"'))),
  )
  t.same(race.sort(), [failed, failed, 'done'], 'one of those at the same time')
  t.equal(await outcome(service.pipelines.remove(me, id, '"v6"')), 'done')
})

t.test('old revisions go, the published one stays', async t => {
  const { service, first } = await openService(t, { revisions: 3, pipelines: 2 })
  const me = await as(service, first.service_account.key)
  const { id } = (await service.pipelines.create(me, { title: 'a', config: config(1) })).document
  const numbers = async () => (await service.pipelines.revisions(me, id, PAGE)).items.map(({ revision }) => revision)
  await service.pipelines.publish(me, id, {})
  for (let n = 2; n <= 7; n++) await service.pipelines.update(me, id, { config: config(n) })
  t.same(await numbers(), [7, 6, 5, 1])
  t.same((await service.pipelines.published(me, id)).document.config, config(1))
  await service.pipelines.publish(me, id, { revision: 6 })
  t.same(await numbers(), [7, 6, 5])
  for (let n = 8; n <= 12; n++) await service.pipelines.update(me, id, { config: config(n) })
  t.same(await numbers(), [12, 11, 10, 6])
  t.same(valuesOf((await service.pipelines.revisions(me, id, { limit: 2 })).items, 'revision'), [12, 11])
  for (const after of ['-99999999999', `-1${'0'.repeat(40)}`])
    t.same((await service.pipelines.revisions(me, id, { limit: 2, after })).items, [], after)
  const bytes = service.pipelines.sizes.all
  await service.pipelines.create(me, { title: 'b', config: config() })
  const other = service.pipelines.sizes.all - bytes
  t.equal(await outcome(service.pipelines.create(me, { title: 'c', config: config() })), '409 limit_reached')
  await service.pipelines.remove(me, id)
  t.equal(service.pipelines.sizes.all, other, 'nothing of it is left')
  t.ok(await service.pipelines.create(me, { title: 'c', config: config() }))
})

t.test('revisions take a part of the disk space of their account', async t => {
  const { service, first, again } = await openService(t, { revisions: 3 })
  const me = await as(service, first.service_account.key)
  const { pipelines } = service
  const account = first.account.id
  const ids: string[] = []
  const stored = async () => {
    const pages = await Promise.all(ids.map(id => pipelines.revisions(me, id, PAGE)))
    const records = pages.flatMap(({ items }) => items).map(({ published: _, ...record }) => record)
    return records.reduce((sum, record) => sum + JSON.stringify(record).length, 0)
  }
  let max = Number.POSITIVE_INFINITY
  pipelines.sizes.hasRoom = (of, more) => of === account && pipelines.sizes.of(of) + more <= max
  const { id } = (await pipelines.create(me, { title: 'a', config: config(1) })).document
  const other = (await pipelines.create(me, { title: 'b', config: config(1) })).document.id
  ids.push(id, other)
  for (let n = 2; n <= 5; n++) await pipelines.update(me, id, { config: config(n) })
  t.equal(pipelines.sizes.of(account), await stored())
  t.equal((await again()).pipelines.sizes.of(account), await stored(), 'after a restart, too')
  max = pipelines.sizes.of(account)
  t.equal(await outcome(pipelines.update(me, other, { config: config(2) })), '409 account_disk_full')
  t.equal(await outcome(pipelines.create(me, { title: 'c', config: config(1) })), '409 account_disk_full')
  await t.rejects(pipelines.create(me, { title: 'c', config: config(1) }), { message: /Delete pipelines/ })
  t.equal(await outcome(pipelines.update(me, id, { config: config(6) })), 'done', 'one that replaces another has room')
  t.equal(await outcome(pipelines.update(me, other, { title: 'B' })), 'done')
  await pipelines.publish(me, id, { revision: 4 })
  max = Number.POSITIVE_INFINITY
  for (let n = 7; n <= 9; n++) await pipelines.update(me, id, { config: config(n) })
  await pipelines.publish(me, id, {})
  t.equal(pipelines.sizes.of(account), await stored(), 'an old one that was published')
  await pipelines.remove(me, ids.shift()!)
  t.equal(pipelines.sizes.of(account), await stored())
  await pipelines.remove(me, other)
  t.equal(pipelines.sizes.all, 0)
  t.equal((await again()).pipelines.sizes.all, 0)
})

t.test('what others write at the same time is noticed', async t => {
  const { service, first, again } = await openService(t)
  const other = await again()
  const me = await as(service, first.service_account.key)
  const { document, etag } = await service.pipelines.create(me, { title: 'a', config: config() })
  const update = (of: typeof service, n: number, ifMatch?: string) =>
    outcome(of.pipelines.update(me, document.id, { config: config(n) }, ifMatch))
  const both = await Promise.all([update(service, 1, etag), update(other, 2, etag)])
  t.same(both.sort(), ['412 precondition_failed', 'done'])
  t.same(await Promise.all([update(service, 3), update(other, 4)]), ['done', 'done'])
  t.match(await other.pipelines.get(me, document.id), { document: { revision: 4 }, etag: '"v4"' })
})

const ofSqlite = { skip: process.env[SERVER] ? 'a second connection to the file makes the loss' : false }
t.test('a revision that the store has lost is not used, although its number is used again', ofSqlite, async t => {
  const { service, first } = await openService(t)
  const me = await as(service, first.service_account.key)
  const { pipelines } = service
  const { id } = (await pipelines.create(me, { title: 'p', config: config(1) })).document
  await pipelines.update(me, id, { config: config(2) })
  await pipelines.publish(me, id, {})
  t.same((await pipelines.published(me, id)).document.config, config(2))
  const store = await openSqlite(join(t.testdirName, 'store'))
  t.teardown(() => store.close())
  await store.change('', async sql => {
    await sql.run('DELETE FROM revision WHERE revision = 2')
    await sql.run('UPDATE pipeline SET revision = 1, published_revision = NULL, published_at = NULL')
  })
  await until('the loss', async () => (await outcome(pipelines.published(me, id))) === '409 not_published')
  await pipelines.update(me, id, { config: config(3) })
  await pipelines.publish(me, id, {})
  t.match((await pipelines.published(me, id)).document, { revision: 2, config: config(3) })
})

t.test('invented daemons do not keep real ones out', async t => {
  const limits = { daemons: 5, newDaemons: { limit: 20, windowMs: 60_000 } }
  const { service, first, time, again } = await openService(t, limits)
  const me = await as(service, first.service_account.key)
  const { id } = (await service.pipelines.create(me, { title: 'a', config: config() })).document
  const base = { pipeline_id: id, host: 'h', version: '1', revision: null, health: 'ready' as const }
  const manager = await as(service, first.manager.key)
  const inventor = await as(service, (await service.users.create(manager, { email: 'e@x.org', role: 'editor' })).key)
  const invent = (n: number) => service.fleet.report(inventor, { ...base, daemon_id: `invented-${n}` })
  const report = (n: number, of = service) => of.fleet.report(me, { ...base, daemon_id: `real-${n}` })
  await report(1)
  await report(2)
  await time.advance(60_000)
  await report(1)
  await report(2)
  for (let n = 0; n < 20; n++) await invent(n)
  t.equal(await outcome(invent(20)), '429 too_many_daemons')
  await report(3)
  const ids = async (of = service) => (await of.fleet.list(me, PAGE)).items.map(({ id }) => id)
  t.same(await ids(), ['invented-18', 'invented-19', 'real-1', 'real-2', 'real-3'])
  t.match(service.counts(), { daemonsEvicted: 18, daemonsRefused: 1 })
  t.notMatch((await service.fleet.list(me, PAGE)).items[0], { registered_at: /./ }, 'the answer is as documented')
  await service.close()

  const other = await again()
  await report(4, other)
  await report(5, other)
  t.same(
    await ids(other),
    [1, 2, 3, 4, 5].map(n => `real-${n}`),
    'after a restart, too',
  )
  await time.advance(60_000)
  for (const n of [1, 2, 3, 4, 5]) await report(n, other)
  const invented = other.fleet.report(inventor, { ...base, daemon_id: 'invented' })
  t.equal(await outcome(invented), '409 limit_reached', 'real ones stay')
  await time.advance(4 * 60_000)
  for (const n of [1, 2, 3, 4]) await report(n, other)
  await time.advance(2 * 60_000)
  await report(6, other)
  t.same(
    await ids(other),
    [1, 2, 3, 4, 6].map(n => `real-${n}`),
    'one that is silent makes room',
  )
})

t.test('a full account keeps the daemons that report to another node, and none of a removed pipeline', async t => {
  const { service, first, time, again } = await openService(t, { daemons: 3 })
  const other = await again()
  const me = await as(service, first.manager.key)
  const create = async () => (await service.pipelines.create(me, { title: 'a', config: config() })).document.id
  const one = await create()
  const report = (of: typeof service, daemon_id: string, pipeline_id = one) =>
    of.fleet.report(me, { daemon_id, pipeline_id, host: 'h', version: '1', revision: null, health: 'ready' })
  const names = ['a', 'b', 'c']
  for (const name of names) await report(service, name)
  await service.flush()
  await report(other, 'a')
  await other.flush()
  for (let minute = 0; minute < 7; minute++) {
    await time.advance(60_000)
    for (const name of names) await report(service, name)
  }
  await service.flush()
  t.equal(await outcome(report(other, 'd')), '409 limit_reached')

  await other.pipelines.remove(me, one)
  const two = await create()
  for (const name of names) t.equal(await outcome(report(other, name, two)), 'done', name)
  await other.flush()
  await time.advance(60_000)
  for (const name of names) t.equal(await outcome(report(service, name, two)), 'done', name)
  t.equal(other.counts().daemonsEvicted + service.counts().daemonsEvicted, 0)
})

t.test('a full disk keeps nobody from reading the fleet, and the service from no start', async t => {
  const { service, first, time, again, disk, logged } = await openService(t, { daemons: 3 })
  const me = await as(service, first.service_account.key)
  const manager = await as(service, first.manager.key)
  await service.userKeys.create(manager, { expires_in: 1000 })
  const { id } = (await service.pipelines.create(me, { title: 'a', config: config() })).document
  const base = { pipeline_id: id, host: 'h', version: '1', revision: null, health: 'ready' as const }
  const report = (name: string) => service.fleet.report(me, { ...base, daemon_id: name })
  for (const name of ['b', 'd', 'f']) await report(name)
  await service.flush()
  await time.advance(31 * 86_400_000)
  disk.writesLeft = 0
  await report('d')
  await report('c')
  t.equal(await service.flush().then(String, String), 'Error: no space left on device')
  const page = await service.fleet.list(me, { limit: 2 })
  const last = await service.fleet.list(me, { limit: 2, after: page.next! })
  const found = [...page.items, ...last.items].map(({ id, silent }) => `${id} ${silent}`)
  t.same(found, ['c false', 'd false', 'f true'], 'c has the place of b')
  t.equal(last.next, null)
  const next = await again()
  t.match(logged.at(-1), { msg: /cannot remove keys that expired long ago/ })
  t.equal((await next.fleet.list(me, PAGE)).items.length, 3)
  disk.writesLeft = Number.POSITIVE_INFINITY
  const writes = service.flush()
  await report('d')
  t.equal((await service.fleet.list(me, PAGE)).items.length, 3)
  await writes
  t.same(valuesOf((await (await again()).fleet.list(me, PAGE)).items, 'id'), ['c', 'd', 'f'])
})

t.test('what a change had written that failed is not remembered', async t => {
  const { service, store, first, disk } = await openService(t)
  const me = await as(service, first.service_account.key)
  const { id } = (await service.pipelines.create(me, { title: 'a', config: config(1) })).document
  // Only SQLite commits several changes together.
  disk.endsLeft = process.env[SERVER] ? 0 : 1
  const { change } = store
  let next: Promise<unknown> | undefined
  // The next one is behind it in the same commit, and looks at the draft.
  store.change = (owner, work) => {
    store.change = change
    const done = change(owner, work)
    next = service.pipelines.update(me, id, { title: 'b' }, '"v1", "v2"')
    next.catch(() => {})
    return done
  }
  const one = service.pipelines.update(me, id, { config: config(2) })
  await t.rejects(one, { code: 'SLUICE_STORE_UNUSABLE' })
  await t.rejects(next!, { code: 'SLUICE_STORE_UNUSABLE' })
  disk.endsLeft = Number.POSITIVE_INFINITY
  await service.pipelines.update(me, id, { config: config(3) })
  t.match((await service.pipelines.get(me, id)).document, { revision: 2, title: 'a', config: config(3) })
})

t.test('the fleet', async t => {
  const { service, first, time, again, written } = await openService(t, { daemons: 3 })
  const me = await as(service, first.service_account.key)
  const { id } = (await service.pipelines.create(me, { title: 'a', config: config() })).document
  const report = {
    daemon_id: 'web-1',
    pipeline_id: id,
    host: 'web-1',
    version: '0.1.0',
    revision: null,
    health: 'starting' as const,
  }
  t.match(await service.fleet.report(me, report), { behind: false, published_revision: null, totals: {}, error: null })
  await service.pipelines.publish(me, id, {})
  t.match((await service.fleet.list(me, PAGE)).items, [
    { id: 'web-1', behind: true, published_revision: 1, silent: false },
  ])
  const totals = { received: 10, sent: 7 }
  t.match(await service.fleet.report(me, { ...report, revision: 1, health: 'ready', totals, error: 'x' }), {
    behind: false,
  })
  await service.fleet.report(me, { ...report, daemon_id: 'web-2', health: 'failed', error: 'no such file' })
  t.match((await service.fleet.list(me, PAGE)).items, [
    { id: 'web-1', revision: 1, totals, error: 'x', behind: false },
    { id: 'web-2', revision: null, health: 'failed', error: 'no such file', behind: true },
  ])
  const enterprise = await as(service, first.enterprise_service_account.key)
  t.equal((await service.fleet.list(enterprise, PAGE)).items.length, 2)
  const page = await service.fleet.list(me, { limit: 1 })
  t.match((await service.fleet.list(me, { limit: 1, after: page.next! })).items, [{ id: 'web-2' }])
  await service.fleet.report(me, { ...report, daemon_id: 'web-3' })
  await time.advance(60_000)
  for (const n of [1, 2, 3]) await service.fleet.report(me, { ...report, daemon_id: `web-${n}` })
  t.equal(await outcome(service.fleet.report(me, { ...report, daemon_id: 'web-4' })), '409 limit_reached')
  t.equal(await outcome(service.fleet.report(me, { ...report, pipeline_id: '0'.repeat(24) })), '404 not_found')

  const { length } = written
  for (let i = 0; i < 100; i++) await service.fleet.report(me, { ...report, daemon_id: `web-${(i % 3) + 1}` })
  t.equal(written.length, length, 'a report is no write')
  await time.advance(86_400_000)
  await service.fleet.report(me, { ...report, daemon_id: 'web-1' })
  await service.flush()
  await time.advance(-86_400_000)
  await service.fleet.report(me, { ...report, daemon_id: 'web-1' })
  await service.close()
  const other = await again()
  t.match((await other.fleet.list(me, PAGE)).items, Array(3).fill({ reported_at: new Date(time.wall()).toISOString() }))
  await time.advance(6 * 60_000)
  t.ok((await other.fleet.list(me, PAGE)).items.every(({ silent }) => silent))
  await time.advance(29 * 86_400_000)
  await other.fleet.report(me, report)
  await time.advance(2 * 86_400_000)
  await other.sweep()
  const left = (await other.fleet.list(me, PAGE)).items.map(({ id }) => id)
  t.same(left, ['web-1'], 'who was silent for long is forgotten')
  await other.fleet.report(me, report)
  await other.pipelines.remove(me, id)
  await other.flush()
  t.same((await other.fleet.list(me, PAGE)).items, [])
})

t.test('daemons of pipelines that do not exist are removed, wherever they are among many', async t => {
  const { service, store, first } = await openService(t)
  const me = await as(service, first.manager.key)
  const { id } = (await service.pipelines.create(me, { title: 'p', config: config() })).document
  const orphans = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
    INSERT INTO daemon SELECT CASE WHEN i % 2 = 0 THEN '0' ELSE 'f' END || CAST(i AS text), 'd', 'e', 'a', '9', '9', '{}' FROM n`
  await store.run(orphans)
  await store.run(
    "INSERT INTO daemon VALUES ('0', 'd', 'e', 'a', '9', '9', '{}'), ($1, 'd', 'e', 'a', '9', '9', '{}')",
    id,
  )
  await service.sweep()
  t.same(await store.all('SELECT pipeline_id FROM daemon'), [{ pipeline_id: id }])
})
