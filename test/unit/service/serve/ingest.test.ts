import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import pino, { type Logger } from 'pino'
import t, { type Test } from 'tap'
import { components } from '../../../../src/components/list.js'
import { parseConfig } from '../../../../src/engine/config/load.js'
import { Metrics } from '../../../../src/engine/run/measure/metrics.js'
import { systemClock } from '../../../../src/lib/time.js'
import { KEYS, openSqlite } from '../../../../src/service/api/store/sqlite.js'
import { StoreError } from '../../../../src/service/api/store/store.js'
import { peopleText } from '../../../../src/service/commands/api-text.js'
import { IdempotencyKeys } from '../../../../src/service/ingest/idempotency-keys.js'
import { ServedIngest } from '../../../../src/service/serve/ingest.js'
import { as, openService } from '../../../support/api-service.js'
import { until } from '../../../support/until.js'
import { valuesOf } from '../../../support/values-of.js'

const PAGE = { limit: 50 }

/** What a service is opened with. `more`: further options of it. */
async function setUp(t: Test, more = '') {
  // Beside the store of the test, whose folder it is.
  const dataDir = join(t.testdirName, 'service')
  const text = `service: { data_dir: ${JSON.stringify(dataDir)}${more} }`
  const { service } = parseConfig(text, 'service.yaml', { env: {}, components, serviceAlone: true })
  const logged: Record<string, unknown>[] = []
  const log = pino({}, { write: line => logged.push(JSON.parse(line)) })
  return { dataDir, options: service!, log, logged, keys: await keysOf(t, log) }
}

async function keysOf(t: Test, log: Logger): Promise<IdempotencyKeys> {
  const store = await openSqlite(join(t.testdirName, 'keys'), undefined, undefined, KEYS)
  t.teardown(() => store.close())
  return await IdempotencyKeys.open(store, { clock: systemClock, log, secret: Buffer.alloc(32) })
}

t.test('a publish answers with what the service bounds, and the log has it', async t => {
  const { service, first } = await openService(t)
  const me = await as(service, first.service_account.key)
  const { dataDir, options, log, logged, keys } = await setUp(t, ', ingest: { max_disk_per_account: 2GB }')
  const { pipelines } = service
  const out = {
    ...{ type: 'http', inputs: ['ingest'], url: 'https://logs.example/', auth: { key: '${secret:up}' } },
    ...{ max_in_flight: 500, buffer: { type: 'disk', max_bytes: '5GB' } },
  }
  const { id } = (await pipelines.create(me, { title: 'p', config: { destinations: { out } } })).document
  t.same((await pipelines.publish(me, id, {})).document.service_bounds, [], 'nothing runs here')
  const parts = { log, metrics: new Metrics(log), keys, components, ownPorts: () => [] }
  const served = new ServedIngest(service, options, parts)
  await served.start()
  t.teardown(() => served.stop(AbortSignal.abort()))
  const at = (option: string) => `config.destinations.out.${option}`
  const bounds = [
    { path: at('max_in_flight'), message: 'the service uses 64 instead of 500' },
    { path: at('buffer.max_bytes'), message: /^5\.0 GB exceeds the 2\.0 GB of disk space/ },
    { path: '', message: /share 2\.0 GB of disk space for disk buffers, dead-letter queues, .* ingest answers 503$/ },
  ]
  const { document } = await pipelines.publish(me, id, {})
  t.match(document, { id, published_revision: 1, service_bounds: bounds })
  t.notOk('service_bounds' in (await pipelines.get(me, id)).document)
  t.match(peopleText(document, 80), /\n {2}config\.destinations\.out\.max_in_flight: the service uses 64 /)

  mkdirSync(join(dataDir, 'ingest', id, 'state/buffer'), { recursive: true })
  const ran = async (revision: number) => {
    const found = () =>
      logged.find(one => / published (pipeline|revision) runs$/.test(String(one.msg)) && one.revision === revision)
    return await until(found)
  }
  await service.secrets.set(me, 'up', { value: 'x' })
  t.match(await ran(1), { pipeline: id, bounds: /out\.max_in_flight: the service uses 64 instead of 500;/ })
  await pipelines.update(me, id, { config: { destinations: { out: { ...out, max_in_flight: 400 } } } })
  await pipelines.publish(me, id, {})
  t.match(await ran(2), { pipeline: id, bounds: /out\.max_in_flight: the service uses 64 instead of 400;/ })

  const toStdout = { destinations: { out: { type: 'stdout', inputs: ['ingest'] } } }
  await pipelines.update(me, id, { config: toStdout })
  const message = /^the service cannot run it: destinations\.out\.type: pipelines cannot write to the standard output/
  t.match((await pipelines.publish(me, id, {})).document.service_bounds, [{ path: '', message, obstacle: true }])
  const own = {
    sources: { f: { type: 'file', include: ['/var/log/a.log'] } },
    destinations: { out: { ...out, inputs: ['f'] } },
  }
  await pipelines.update(me, id, { config: own })
  const [only] = (await pipelines.publish(me, id, {})).document.service_bounds
  t.match(only, { message: /events from ingest do not reach a destination/ })
  t.notOk(only?.obstacle, 'it is for daemons')
})

t.test('the files of a pipeline that was deleted are removed, also at the next start', async t => {
  const { service, first } = await openService(t)
  const me = await as(service, first.service_account.key)
  const { dataDir, options, log, logged, keys } = await setUp(t)
  const config = { destinations: { out: { type: 'blackhole', inputs: ['ingest'] } } }
  const open = () =>
    new ServedIngest(service, options, { log, metrics: new Metrics(log), keys, components, ownPorts: () => [] })
  const folderOf = (id: string) => join(dataDir, 'ingest', id)
  const make = async () => {
    const { id } = (await service.pipelines.create(me, { title: 'p', config })).document
    await service.pipelines.publish(me, id, {})
    mkdirSync(join(folderOf(id), 'state', 'dead-letter'), { recursive: true })
    return id
  }
  const [kept, now, later] = [await make(), await make(), await make()]
  mkdirSync(folderOf('orphan'))

  // The process is killed before it comes to the files.
  await service.pipelines.remove(me, later)
  t.same(await service.pipelines.removed(), [later])
  const served = open()
  await served.start()
  t.notOk(existsSync(folderOf(later)), 'left over from before')
  t.same(await service.pipelines.removed(), [])
  t.match(
    logged.filter(({ code }) => code === 'SLUICE_ORPHANED_PIPELINE'),
    [{ folder: folderOf('orphan') }],
    'what belongs to nobody is named, and kept',
  )
  t.ok(existsSync(folderOf('orphan')))

  await service.pipelines.remove(me, now)
  await served.stop(AbortSignal.abort())
  await until(() => !existsSync(folderOf(now)))
  t.ok(existsSync(folderOf(kept)))
  t.same(valuesOf((await service.pipelines.list(me, PAGE)).items, 'id'), [kept])
})

t.test('the service starts without the pipelines whose changes cannot be applied', async t => {
  const { service, first } = await openService(t)
  const me = await as(service, first.service_account.key)
  const { dataDir, options, log, logged, keys } = await setUp(t)
  const buffer = { type: 'disk', max_bytes: '1GB' }
  const out = { type: 'http', inputs: ['ingest'], url: 'https://logs.example/', buffer }
  const make = async (key: string) => {
    const config = { destinations: { out: { ...out, auth: { key } } } }
    const { id } = (await service.pipelines.create(me, { title: 'p', config })).document
    await service.pipelines.publish(me, id, {})
    mkdirSync(join(dataDir, 'ingest', id, 'state/buffer'), { recursive: true })
    return id
  }
  await service.secrets.set(me, 'lost', { value: 'x' })
  await service.secrets.set(me, 'up', { value: 'x' })
  const removed = [await make('${secret:up}'), await make('${secret:up}')]
  const [broken, sound] = [await make('${secret:lost}'), await make('${secret:up}')]
  for (const id of removed) await service.pipelines.remove(me, id)
  const { remove } = keys
  keys.remove = id => (id === removed[0] ? Promise.reject(new Error('EIO: i/o error')) : remove.call(keys, id))
  const { secrets } = service
  const { for: read } = secrets
  secrets.for = (account, config) =>
    secrets.namesIn(config).includes('lost')
      ? Promise.reject(new Error('cannot read'))
      : read.call(secrets, account, config)

  const parts = { log, metrics: new Metrics(log), keys, components, ownPorts: () => [] }
  const served = new ServedIngest(service, options, parts)
  t.teardown(() => served.stop(AbortSignal.abort()))
  await served.start()
  t.same(await service.pipelines.removed(), [removed[0]], 'its files are removed at the next start')
  t.match(
    logged.filter(({ msg }) => msg === 'cannot apply a change of a published pipeline'),
    [
      { pipeline: removed[0], error: /EIO/ },
      { pipeline: broken, error: /cannot read/ },
    ],
  )
  t.ok(logged.some(({ msg, pipeline }) => / published pipeline runs$/.test(String(msg)) && pipeline === sound))
})

t.test('a database that fails at the start does not end the service', async t => {
  const { service, store, first } = await openService(t)
  const me = await as(service, first.service_account.key)
  const { dataDir, options, log, logged, keys } = await setUp(t)
  const out = { type: 'http', inputs: ['ingest'], url: 'https://logs.example/', buffer: { type: 'disk' } }
  const make = async () => {
    const config = { destinations: { out } }
    const { id } = (await service.pipelines.create(me, { title: 'p', config })).document
    await service.pipelines.publish(me, id, {})
    mkdirSync(join(dataDir, 'ingest', id, 'state/buffer'), { recursive: true })
    return id
  }
  const ids = [await make(), await make()]
  const { pipelines } = service
  const { removed, allPublished } = pipelines
  const failure = new StoreError('SLUICE_STORE_UNUSABLE', 'cannot read the store')
  let reads = 0
  pipelines.removed = () => (reads++ === 0 ? Promise.reject(failure) : removed.call(pipelines))
  pipelines.allPublished = async function* () {
    for await (const published of allPublished.call(pipelines)) {
      yield published
      if (reads === 2) throw failure
    }
  }
  const parts = { log, metrics: new Metrics(log), keys, components, ownPorts: () => [] }
  const served = new ServedIngest(service, options, { ...parts, shared: store })
  t.teardown(() => served.stop(AbortSignal.abort()))
  await served.start()
  t.equal(reads, 3)
  const ran = logged.filter(({ msg }) => / published pipeline runs$/.test(String(msg)))
  t.same(valuesOf(ran, 'pipeline'), ids)
  t.equal(logged.filter(({ msg }) => /^cannot read which pipelines/.test(String(msg))).length, 1)

  pipelines.removed = () => Promise.reject(failure)
  const alone = new ServedIngest(service, options, { ...parts, metrics: new Metrics(log) })
  t.teardown(() => alone.stop(AbortSignal.abort()))
  await t.rejects(alone.start(), failure, 'without PostgreSQL, it can be started again')
})

t.test('what another node changes is applied here', async t => {
  const { service, store, first, again } = await openService(t)
  const other = await again()
  const me = await as(other, first.service_account.key)
  const { dataDir, options, log, logged, keys } = await setUp(t)
  const out = (max_in_flight: number, key = '${secret:up}') => ({
    ...{ type: 'http', inputs: ['ingest'], url: 'https://logs.example/', auth: { key } },
    ...{ max_in_flight, buffer: { type: 'disk', max_bytes: '1GB' } },
  })
  const metrics = new Metrics(log)
  const parts = { log, metrics, keys, components, ownPorts: () => [], shared: store }
  const served = new ServedIngest(service, options, parts)
  await served.start()
  t.teardown(() => served.stop(AbortSignal.abort()))
  t.equal(served.buffered, 0)
  const running = async () => /^sluice_ingest_pipelines (\d)/m.exec(String(await metrics.render('text')))?.[1]
  const ran = (revision: number) =>
    until(() =>
      logged.find(one => / published (pipeline|revision) runs$/.test(String(one.msg)) && one.revision === revision),
    )

  const make = async (key?: string) => {
    const config = { destinations: { out: out(5, key) } }
    const { id } = (await other.pipelines.create(me, { title: 'p', config })).document
    const folder = join(dataDir, 'ingest', id)
    mkdirSync(join(folder, 'state/buffer'), { recursive: true })
    return { id, folder }
  }
  const stuck = await make('${secret:lost}')
  const { id, folder } = await make()
  const { secrets } = service
  const { for: read } = secrets
  let failures = 0
  secrets.for = async (account, config) => {
    const isStuck = secrets.namesIn(config).includes('lost')
    if (isStuck || failures-- > 0) throw new Error('cannot read')
    return await read.call(secrets, account, config)
  }
  await other.secrets.set(me, 'lost', { value: 'x' })
  await other.secrets.set(me, 'up', { value: 'x' })
  await other.pipelines.publish(me, stuck.id, {})
  await other.pipelines.publish(me, id, {})
  await ran(1)
  failures = 2
  await other.pipelines.update(me, id, { config: { destinations: { out: out(6) } } })
  await other.pipelines.publish(me, id, {})
  await ran(2)
  t.equal(logged.filter(({ msg }) => /^cannot apply changes of other nodes/.test(String(msg))).length, 1)
  t.equal(await running(), '1')
  await store.run("UPDATE pipeline SET published_at = '2100-01-01T00:00:00.000Z' WHERE id = $1", id)
  await until('a revision that has the number of one that was lost', () => logged.some(({ before }) => before === 2))
  await other.secrets.remove(me, 'up')
  await until('it to end without its secret', async () => (await running()) === '0')
  await other.secrets.set(me, 'up', { value: 'y' })
  await until('it to run again', async () => (await running()) === '1')

  await other.pipelines.remove(me, id)
  await until(() => !existsSync(folder))
  t.equal(await running(), '0')
  t.same(await service.pipelines.removed(), [id], 'a node that does not run now has files of it, too')
  mkdirSync(folder)
  const next = new ServedIngest(service, options, { ...parts, metrics: new Metrics(log) })
  await next.start()
  t.teardown(() => next.stop(AbortSignal.abort()))
  t.notOk(existsSync(folder), 'at its next start')
})
