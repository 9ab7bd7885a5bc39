import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { fuzzNodes } from '../fuzz/run.js'
import { HOST, ownPort } from '../support/address.js'
import { bound } from '../support/bound.js'
import { testFolder } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { type ServedNode, startNodes, Writer } from '../support/nodes.js'
import { inDatabase, newDatabase, startPostgres } from '../support/postgres.js'
import { startProxy } from '../support/proxy.js'
import { type Receiver, startReceiver } from '../support/receiver.js'
import { startRedis } from '../support/redis-server.js'
import { until } from '../support/until.js'

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

t.test('two nodes with one database', async t => {
  const server = await startPostgres(t)
  if (!server) return
  const folder = testFolder(t)
  const redis = await startRedis(t, folder)
  if (!redis) return
  const options = await newDatabase(server.options)
  const place = new URL(options.url)
  const proxy = await startProxy(t, Number(place.port))
  const urls = [options.url, options.url.replace(place.port, String(proxy.port))]
  const { nodes, made } = await startNodes(t, folder, options, {
    urls,
    more: '  limits: { requests: 6000, failed_tries: 100000 }\n',
  })
  const [a, b] = nodes as [ServedNode, ServedNode]
  const key = made.manager.key
  const receiver = await receiverOf(t)
  const post = (node: ServedNode, id: string, events: object[], more: Record<string, string> = {}) =>
    node.send('POST', `/v3/ingest/${id}`, { key, json: events, headers: more })

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

  const pipeline = await publish(t, a, key, { destinations: { out: to(receiver.url('/first')) } })
  for (const node of [b, a])
    await until('it to run the pipeline', async () => (await post(node, pipeline, [{ id: 'x' }])).status === 202)
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

  const whoami = async (node: ServedNode) => {
    const began = performance.now()
    const answer = await node.send('GET', '/v3/auth/token', { key })
    t.ok(performance.now() - began < 20_000, 'in time')
    return answer
  }
  for (const how of ['closed', 'silent'] as const) {
    proxy.network = how
    if (how === 'closed') proxy.cut()
    await until('the node without a database to refuse', async () => {
      const { status, body } = await whoami(b)
      return status === 503 && body.code === 'store_unusable'
    })
    await until('it not to be ready', async () => (await b.ready()) === 503)
    t.equal((await whoami(a)).status, 200)
    t.equal(await a.ready(), 200)
    proxy.network = 'open'
    proxy.cut()
    await until('it to continue', async () => (await whoami(b)).status === 200)
    await until('it to be ready', async () => (await b.ready()) === 200)
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

interface Balancer {
  readonly program: string
  readonly args: (file: string, folder: string) => string[]
  readonly config: (port: number, nodes: readonly ServedNode[], folder: string) => string
}

const BALANCERS: Record<string, Balancer> = {
  HAProxy: {
    program: 'haproxy',
    args: file => ['-db', '-f', file],
    config: (port, nodes) => `
defaults
  mode http
  timeout connect 1s
  timeout client 60s
  timeout server 60s
  retries 3
  option redispatch 1
frontend service
  bind ${HOST}:${port}
  default_backend nodes
backend nodes
  option httpchk GET /readyz
  timeout check 1s
  default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
${nodes.map((node, i) => `  server n${i} ${HOST}:${node.port} check port ${node.metricsPort}\n`).join('')}`,
  },
  nginx: {
    program: 'nginx',
    args: (file, folder) => ['-c', file, '-p', folder, '-e', join(folder, 'error.log')],
    config: (port, nodes, folder) => `
daemon off;
worker_processes 1;
pid ${folder}/nginx.pid;
${process.getuid!() === 0 ? 'user root;' : ''}
events {}
http {
  access_log off;
  ${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(name => `${name}_temp_path ${folder}/${name};`).join(' ')}
  upstream nodes {
${nodes.map(node => `    server ${HOST}:${node.port} max_fails=1 fail_timeout=5s;\n`).join('')}  }
  server {
    listen ${HOST}:${port};
    client_max_body_size 16m;
    location / {
      proxy_pass http://nodes;
      proxy_connect_timeout 1s;
      proxy_read_timeout 3s;
      proxy_next_upstream error timeout;
    }
  }
}`,
  },
}

async function startBalancer(t: Test, name: string, nodes: readonly ServedNode[]): Promise<string | undefined> {
  const { program, args, config } = BALANCERS[name]!
  const path = needs(t, program)
  if (!path) return undefined
  const folder = t.testdirName
  const port = await ownPort()
  const file = join(folder, `${program}.cfg`)
  writeFileSync(file, config(port, nodes, folder))
  const child = spawn(...bound(path, args(file, folder)), { stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', text => (said += text))
  t.teardown(() => child.kill('SIGTERM'))
  const url = `http://${HOST}:${port}`
  const answers = () =>
    fetch(`${url}/v3/openapi.json`).then(
      ({ status }) => status < 500,
      () => false,
    )
  await until(`${name} to answer`, answers, { show: () => said })
  return url
}

for (const name of Object.keys(BALANCERS))
  t.test(`nodes that are killed, drained and stopped behind ${name}`, async t => {
    const server = await startPostgres(t)
    if (!server) return
    const options = await newDatabase(server.options)
    const { nodes, made } = await startNodes(t, testFolder(t), options, {
      count: 3,
      more: '  limits: { requests: 1000000 }\n',
    })
    const [killed, drained, stopped] = nodes as [ServedNode, ServedNode, ServedNode]
    const url = await startBalancer(t, name, nodes)
    if (!url) return
    const { key } = made.manager
    const receiver = await receiverOf(t)
    receiver.otherwise = 503
    const out = to(receiver.url(), { buffer: { type: 'disk' } })
    const pipeline = await publish(t, killed, key, { destinations: { out } })
    const writers = Array.from({ length: 4 }, (_, i) => new Writer(`w${i}`, url, key, pipeline))
    t.teardown(() => Promise.all(writers.map(writer => writer.stop())))
    const continues = async (what: string) => {
      const from = performance.now()
      const show = () => writers.map(({ failures, lastBegan }) => [lastBegan - from, ...failures])
      await until(`new requests to succeed after ${what}`, () => writers.every(one => one.lastBegan > from), { show })
      return Math.round(performance.now() - from)
    }
    /** Of what has to take five seconds at most where nothing else runs. */
    const continuesSoon = async (what: string) => {
      const took = await continues(what)
      t.comment(JSON.stringify(writers.map(({ failures }) => [...failures])))
      t.ok(took < 15_000, `${took} ms until new requests of all writers succeed after ${what}`)
    }
    await continues('the start')
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
    await until('it to be forgotten', async () => (await stopped.metric('sluice_service_nodes')) === 2)
    await drained.start()
    await until('it to run its pipeline', () => drained.log.includes('a published pipeline runs'))

    stopped.running!.child.kill('SIGSTOP')
    await continuesSoon('a node is stopped')
    stopped.running!.child.kill('SIGCONT')
    await continues('it continues')

    await Promise.all(writers.map(writer => writer.stop()))
    const sent = writers.flatMap(({ acknowledged }) => acknowledged)
    await until('everything acknowledged to be delivered', () => {
      const got = new Set(idsIn(receiver))
      return sent.every(id => got.has(id))
    })
    t.comment(`${sent.length} events, ${idsIn(receiver).length - new Set(idsIn(receiver)).size} twice`)
  })
