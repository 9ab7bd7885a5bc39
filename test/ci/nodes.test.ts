import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import { MIGRATIONS } from '../../src/service/api/store/schema.js'
import { fuzzNodes } from '../fuzz/run.js'
import { HOST } from '../support/address.js'
import { BALANCERS, startBalancer } from '../support/balancer.js'
import { testFolder } from '../support/folder.js'
import { type ServedNode, Sinks, startNodes } from '../support/nodes.js'
import { inDatabase, newDatabase, startPostgres } from '../support/postgres.js'
import { startProxy } from '../support/proxy.js'
import { type Receiver, startReceiver } from '../support/receiver.js'
import { startRedis } from '../support/redis-server.js'
import { until } from '../support/until.js'
import { productBefore } from './same/product.js'

/** Several nodes of the service, with one database. */

async function receiverOf(t: Test): Promise<Receiver> {
  const receiver = await startReceiver()
  t.teardown(() => receiver.close())
  return receiver
}

/** Publishes a configuration, and resolves with the id of its pipeline. */
async function publish(t: Test, node: ServedNode, key: string, config: object, before?: string): Promise<string> {
  const json = { title: 'p', config }
  const { status, body, text } = before
    ? await node.send('PUT', `/v3/pipeline/${before}`, { key, json })
    : await node.send('POST', '/v3/pipeline', { key, json })
  t.ok(status < 300, text)
  const { id } = body.data as { id: string }
  const published = await node.send('POST', `/v3/pipeline/${id}/publish`, { key, json: {} })
  t.equal(published.status, 200, published.text)
  return id
}

const to = (url: string, more: object = {}) => ({ type: 'http', inputs: ['ingest'], url, ...more })
const idsIn = (receiver: Receiver, path = '') =>
  receiver.requests
    .filter(one => one.status === 200 && one.path.startsWith(path))
    .flatMap(({ body }) => [...body.matchAll(/"id":"([^"]+)"/g)].map(([, id]) => id!))

/** What adds, and so leaves what the nodes of before read and write. */
const ADDS = /^(CREATE (TABLE|INDEX) \w+ |ALTER TABLE \w+ ADD COLUMN \w+ \w+( NOT NULL DEFAULT .+)?$)/

async function checkMigrations(t: Test, before: string): Promise<void> {
  const schema = pathToFileURL(join(dirname(before), '../service/api/store/schema.js')).href
  const { MIGRATIONS: run } = await import(schema)
  t.same(MIGRATIONS.slice(0, run.length), run, 'a migration that has run stays as it is')
  const statements = MIGRATIONS.flatMap(text => text.split(';').map(statement => statement.trim())).filter(Boolean)
  const others = statements.filter(statement => !ADDS.test(statement))
  t.same(others, [], 'migrations only add')
}

t.test('two nodes with one database, upgraded from the commit before', async t => {
  const server = await startPostgres(t)
  if (!server) return
  const folder = testFolder(t)
  const redis = await startRedis(t, folder)
  if (!redis) return
  const options = await newDatabase(server.options)
  const more = '    requests: 6000\n    failed_tries: 100000\n'
  const { main } = productBefore()
  await checkMigrations(t, main)
  const { nodes, made } = await startNodes(t, folder, options, { more, main })
  const [a, b] = nodes as [ServedNode, ServedNode]
  const key = made.manager.key
  const receiver = await receiverOf(t)
  const post = (node: ServedNode, id: string, events: object[], more: Record<string, string> = {}) =>
    node.send('POST', `/v3/ingest/${id}`, { key, json: events, headers: more })

  const pipeline = await publish(t, a, key, { destinations: { out: to(receiver.url('/first')) } })
  const acknowledged: string[] = []
  let isUpgraded = false
  /** One event after the other, at each node in turn until it is taken. */
  const sendOn = async () => {
    for (let n = 0; !isUpgraded; acknowledged.push(`upgrade-${n++}`)) {
      const send = (node: ServedNode) =>
        post(node, pipeline, [{ id: `upgrade-${n}` }], { 'idempotency-key': `upgrade-${n}` })
      for (let i = n, status: unknown; status !== 202; i++)
        status = await send(nodes[i % 2]!).then(
          answer => answer.status,
          () => new Promise(resolve => setTimeout(resolve, 20)),
        )
    }
  }
  const sending = sendOn()
  const goesOn = (count = acknowledged.length + 4) =>
    until('new events to be taken', () => acknowledged.length >= count, { show: () => a.log + b.log })
  await goesOn()
  for (const [node, other] of [
    [a, b],
    [b, a],
  ] as const) {
    const end = node.end('SIGTERM')
    await goesOn()
    t.equal(await end, 0)
    node.main = undefined
    await node.start()
    await goesOn()
    for (const [by, seenBy] of [
      [node, other],
      [other, node],
    ] as const) {
      const title = `${by.port} after ${node.port}`
      t.equal((await by.send('PUT', `/v3/pipeline/${pipeline}`, { key, json: { title } })).status, 200)
      const seen = async () => (await seenBy.send('GET', `/v3/pipeline/${pipeline}`, { key })).body.data.title
      await until('the other to see it', async () => (await seen()) === title)
    }
  }
  isUpgraded = true
  await sending
  t.same(idsIn(receiver).sort(), acknowledged.sort(), 'during an upgrade nothing is lost, and nothing comes twice')

  const share = async (node: ServedNode) =>
    (await node.send('GET', '/v3/auth/token', { key })).headers.get('ratelimit-limit')
  await until('each to allow its share', async () => (await share(a)) === '3000' && (await share(b)) === '3000')

  const { id: account, key: ending } = made.service_account
  const status = async (node: ServedNode) => (await node.send('GET', '/v3/auth/token', { key: ending })).status
  t.same([await status(a), await status(b)], [200, 200])
  t.equal((await a.send('DELETE', `/v3/service-account/${account}/key`, { key })).status, 204)
  const revoked = performance.now()
  t.equal(await status(a), 401)
  await until('the other to refuse it', async () => (await status(b)) === 401)
  t.ok(performance.now() - revoked < 3000, `${performance.now() - revoked} ms`)

  for (let n = 0; n < 20; n++) {
    const same = { 'idempotency-key': `key-${n}` }
    const both = await Promise.all([a, b].map(node => post(node, pipeline, [{ id: `once-${n}` }], same)))
    t.ok(both.some(one => one.status === 202))
    for (const one of both) if (one.status !== 202) t.match([one.status, one.body.code], [503, 'not_delivered_yet'])
    const again = await Promise.all([a, b].map(node => post(node, pipeline, [{ id: `once-${n}` }], same)))
    for (const { body } of again) t.match(body, { received: 1, repeated: true })
  }
  const once = idsIn(receiver).filter(id => id.startsWith('once-'))
  t.equal(once.length, 20, 'each key counts once')
  t.equal(new Set(once).size, 20)

  const limit = { type: 'throttle', inputs: ['ingest'], limit: 10, window: '1 Hours', scope: 'cluster' }
  // The server answers late on a busy machine; no node may then decide alone.
  const answers = { accuracy: 'exact', on_backend_failure: 'wait' }
  const throttled = {
    processors: { limit: { ...limit, redis: { url: redis.url, timeout: '5 Seconds' }, ...answers } },
    destinations: { out: to(receiver.url('/throttled'), { inputs: ['limit'] }) },
  }
  t.equal((await a.send('PUT', '/v3/account/feature/throttle', { key, json: { enabled: true } })).status, 200)
  const shared = await publish(t, a, key, throttled)
  for (let n = 0; n < 15; n++)
    for (const node of [a, b])
      await until(
        'it to be taken',
        async () => (await post(node, shared, [{ id: `${node.port}-${n}` }])).status === 202,
      )
  const passed = idsIn(receiver, '/throttled')
  t.equal(passed.length, 10, 'the nodes share the limit of a published pipeline')
  for (const { port } of [a, b]) t.ok(passed.some(id => id.startsWith(`${port}`)))

  receiver.otherwise = one => (one.path.startsWith('/held') ? 503 : 200)
  const buffered = (path: string) => ({ destinations: { out: to(receiver.url(path), { buffer: { type: 'disk' } }) } })
  const held = await publish(t, a, key, buffered('/held'))
  await until('b to take it', async () => (await post(b, held, [{ id: 'waits' }])).status === 202)
  await publish(t, a, key, buffered('/open'), held)
  await until('b to run the new revision', () => idsIn(receiver, '/open').includes('waits'))

  const tag = async (node: ServedNode) => (await node.send('GET', `/v3/pipeline/${held}`, { key })).headers.get('etag')!
  for (let n = 0; n < 5; n++) {
    await until('both to have the same pipeline', async () => (await tag(a)) === (await tag(b)))
    const headers = { 'if-match': await tag(a) }
    const change = (node: ServedNode) =>
      node.send('PUT', `/v3/pipeline/${held}`, { key, json: { title: `${node.port} ${n}` }, headers })
    const statuses = (await Promise.all([change(a), change(b)])).map(({ status }) => status)
    t.same(statuses.sort(), [200, 412], 'one change of a pipeline, and not two')
  }

  receiver.otherwise = { hang: 'after_body' }
  const claimed = { 'idempotency-key': 'claimed' }
  const unanswered = post(b, pipeline, [{ id: 'claimed' }], claimed).catch(() => undefined)
  await until('it to be claimed', () => receiver.requests.some(({ body }) => body.includes('claimed')))
  await b.end('SIGKILL')
  await unanswered
  receiver.otherwise = 200
  const waits = await post(a, pipeline, [{ id: 'claimed' }], claimed)
  t.match([waits.status, waits.body.code, waits.headers.get('retry-after')], [503, 'not_delivered_yet', '1'])
  const claims = await inDatabase(options, 'SELECT until FROM idempotency WHERE received IS NULL')
  t.equal(claims.rowCount, 1)
  t.ok(Number(claims.rows[0].until) <= Date.now() + 60_000, 'a dead node holds a key for a minute at most')
  await inDatabase(options, 'UPDATE idempotency SET until = 0 WHERE received IS NULL')
  t.match(await post(a, pipeline, [{ id: 'claimed' }], claimed), { status: 202, body: { received: 1 } })
  await until('a to allow all alone', async () => (await share(a)) === '6000')

  await b.start()
  const { statuses, problems } = await fuzzNodes([a.url, b.url], made, 20_310_203, 400)
  t.same(problems.slice(0, 5), [], 'requests to both are answered as the description says')
  t.ok(Object.keys(statuses).length >= 7, JSON.stringify(statuses))
})

for (const name of BALANCERS)
  t.test(`50 daemons send through ${name} to nodes that are killed, drained, cut off and stopped`, async t => {
    const server = await startPostgres(t)
    if (!server) return
    const folder = testFolder(t)
    const redis = await startRedis(t, folder)
    if (!redis) return
    const options = await newDatabase(server.options)
    const place = new URL(options.url)
    const database = await startProxy(t, Number(place.port))
    const limits = await startProxy(t, redis.port)
    const { nodes, made } = await startNodes(t, folder, options, {
      count: 3,
      urls: [options.url, options.url, options.url.replace(place.port, String(database.port))],
      redis: `redis://${HOST}:${limits.port}`,
      more: '    requests: 1000000\n',
    })
    const [killed, drained, cut] = nodes as [ServedNode, ServedNode, ServedNode]
    const url = await startBalancer(t, name, nodes)
    if (!url) return
    const { key } = made.manager
    const receiver = await receiverOf(t)
    receiver.otherwise = 503
    t.equal((await killed.send('PUT', '/v3/account/feature/throttle', { key, json: { enabled: true } })).status, 200)
    // It passes all events, with and without Redis.
    const limit = { type: 'throttle', inputs: ['ingest'], limit: 1e9, window: '1 Hours' }
    const shared = { scope: 'cluster', accuracy: 'exact', redis: { url: `redis://${HOST}:${limits.port}` } }
    const pipeline = await publish(t, killed, key, {
      processors: { limit: { ...limit, ...shared } },
      destinations: { out: to(receiver.url(), { inputs: ['limit'], buffer: { type: 'disk' } }) },
    })
    const json = [{ id: 'first' }]
    for (const node of nodes)
      await until(
        'it to run the pipeline',
        async () => (await node.send('POST', `/v3/ingest/${pipeline}`, { key, json })).status === 202,
      )
    const sinks = await Sinks.start(t, 50, `${url}/v3/ingest/${pipeline}`, key)
    /** Five seconds at most, and what all of them take on this machine when nothing fails. */
    const continuesSoon = async (what: string) => {
      const took = await sinks.continue(what)
      const usual = await sinks.continue(`${what}, once more`)
      const text = `${took} ms until new requests of all daemons succeed after ${what}, then ${usual} ms`
      t.comment(text)
      t.ok(took < 5000 + usual, text)
    }
    await sinks.continue('the start')
    // Each node counts its events every two seconds, and reports them every second.
    const reported = async () => (await inDatabase(options, 'SELECT id FROM node WHERE events > 0')).rowCount
    await until('each to report events', async () => (await reported()) === nodes.length)

    await killed.end('SIGKILL')
    await continuesSoon('a kill')
    const seen = () => drained.metric('sluice_service_gone_node_events')
    await until('the others to know what waits there', async () => (await seen()) > 0)
    t.match(drained.log, /"code":"SLUICE_NODE_GONE"/)
    t.equal(await drained.metric('sluice_service_nodes'), 3)
    await killed.start()
    await until('it to be back', async () => (await seen()) === 0)
    await until('it to run its pipeline', () => killed.log.includes('a published pipeline runs'))

    receiver.otherwise = 200
    // An end does not wait for destinations that fail.
    await until('deliveries to work', () => drained.log.includes('delivery works again'))
    const end = drained.end('SIGTERM')
    await continuesSoon('a node drains')
    t.equal(await end, 0)
    await until('it to be forgotten', async () => (await cut.metric('sluice_service_nodes')) === 2)

    database.network = name === 'nginx' ? 'silent' : 'closed'
    if (database.network === 'closed') database.cut()
    await continuesSoon('a node is cut off from the database')
    const whoami = async () => await cut.send('GET', '/v3/auth/token', { key })
    await until('it to refuse', async () => (await whoami()).body.code === 'store_unusable')
    await until('it not to be ready', async () => (await cut.ready()) === 503)
    t.equal(await killed.ready(), 200)
    database.network = 'open'
    database.cut()
    await until('it to continue', async () => (await whoami()).status === 200)
    await until('it to be ready', async () => (await cut.ready()) === 200)

    limits.network = 'silent'
    await continuesSoon('the nodes are cut off from Redis')
    for (const node of [killed, cut])
      await until('it to limit alone', () => /"component":"limit"[^\n]*SLUICE_THROTTLE_BACKEND/.test(node.log))
    limits.network = 'open'
    limits.cut()

    cut.running!.child.kill('SIGSTOP')
    await continuesSoon('a node is stopped')
    cut.running!.child.kill('SIGCONT')
    await sinks.continue('it continues')

    const sent = await sinks.stop()
    let got: number[] = []
    const delivered = () => {
      const bodies = receiver.requests.filter(({ status }) => status === 200).map(({ body }) => body)
      got = bodies.flatMap(body => [...body.matchAll(/"n":(\d+)/g)].map(([, n]) => Number(n)))
      const all = new Set(got)
      return sent.every(n => all.has(n))
    }
    await until('everything acknowledged to be delivered', delivered, { every: 200 })
    t.comment(`${sent.length} events, ${got.length - new Set(got).size} twice`)
  })
