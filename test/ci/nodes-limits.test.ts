import t from 'tap'
import { HOST } from '../support/address.js'
import { testFolder } from '../support/folder.js'
import { type ServedNode, startNodes } from '../support/nodes.js'
import { newDatabase, startPostgres } from '../support/postgres.js'
import { startProxy } from '../support/proxy.js'
import { startRedis } from '../support/redis-server.js'
import { until } from '../support/until.js'

/** Rate limits of nodes that share a Redis. The window is a minute. */

const REQUESTS = 600
const TRIES = 60

t.test('nodes share rate limits by Redis, and each allows its share while Redis is away', async t => {
  const server = await startPostgres(t)
  if (!server) return
  const folder = testFolder(t)
  const redis = await startRedis(t, folder)
  if (!redis) return
  const proxy = await startProxy(t, redis.port)
  const { nodes, made } = await startNodes(t, folder, await newDatabase(server.options), {
    redis: `redis://${HOST}:${proxy.port}`,
    more: `    requests: ${REQUESTS}\n    failed_tries: ${TRIES}\n`,
  })
  const [a, b] = nodes as [ServedNode, ServedNode]
  const newKey = async (): Promise<string> => {
    const created = await a.send('POST', '/v3/service-account', { key: made.manager.key, json: { title: 'one' } })
    return created.body.data.key
  }
  const keys = await Promise.all(Array.from({ length: 8 }, newKey))
  const nextKey = () => keys.pop()!
  const ask = (node: ServedNode, key: string) => node.send('GET', '/v3/auth/token', { key })
  /** Sends so many requests, a few at a time; how many had each status. */
  const statuses = async (count: number, key: string, ...to: readonly ServedNode[]) => {
    const counts: Record<number, number> = {}
    const send = async (n: number) => {
      const { status } = await ask(to[n % to.length]!, key)
      counts[status] = (counts[status] ?? 0) + 1
    }
    for (let n = 0; n < count; n += 10) await Promise.all(Array.from({ length: 10 }, (_, i) => send(n + i)))
    return counts
  }
  const areShared = async (node: ServedNode) =>
    (await node.metric('sluice_service_nodes')) === 2 && (await node.metric('sluice_throttle_backend_up')) === 1
  const share = () => until('the nodes to share', async () => (await areShared(a)) && (await areShared(b)))

  await share()
  t.same(await statuses(REQUESTS + 50, nextKey(), b), { 200: REQUESTS, 429: 50 }, 'the whole limit at one node')
  const spread = nextKey()
  let taken = (await statuses(REQUESTS + 50, spread, a, b))[200]!
  await until('leases to come back', async () => {
    for (const node of nodes) taken += (await statuses(10, spread, node))[200] ?? 0
    return taken >= REQUESTS
  })
  t.equal(taken, REQUESTS, 'the whole limit at both')
  const late = await ask(a, spread)
  t.equal(late.headers.get('ratelimit-limit'), String(REQUESTS))
  t.match(late.body, { code: 'too_many_requests', message: `more than ${REQUESTS} requests in 60 seconds` })
  t.ok(Number(late.headers.get('retry-after')) <= 60)
  const wrong = `sts_${'0'.repeat(40)}`
  t.same(await statuses(TRIES, wrong, b), { 401: TRIES })
  t.same(await statuses(10, wrong, a), { 429: 10 })

  await redis.kill()
  const alone = nextKey()
  t.same(await statuses(REQUESTS, alone, a), { 200: REQUESTS / 2, 429: REQUESTS / 2 }, 'a node allows its share')
  t.same(await statuses(REQUESTS, alone, b), { 200: REQUESTS / 2, 429: REQUESTS / 2 })
  for (const node of nodes) {
    t.match(node.log, /"component":"service.limits","code":"SLUICE_THROTTLE_BACKEND"/)
    t.ok((await node.metric('sluice_throttle_backend_failures_total')) > 0)
  }
  t.ok(await startRedis(t, folder, [], redis.port))
  await share()
  t.same(await statuses(REQUESTS + 50, nextKey(), a), { 200: REQUESTS, 429: 50 }, 'shared again')

  proxy.network = 'silent'
  t.same(await statuses(REQUESTS, nextKey(), b), { 200: REQUESTS / 2, 429: REQUESTS / 2 }, 'it does not reply')
  proxy.network = 'open'
  proxy.cut()
  await share()
  t.same(await statuses(REQUESTS + 50, nextKey(), a), { 200: REQUESTS, 429: 50 }, 'it replies again')

  // The rest of a lease is lost with its node, for a minute at most.
  const leased = nextKey()
  t.same(await statuses(100, leased, a), { 200: 100 })
  await a.end('SIGKILL')
  const rest = (await statuses(REQUESTS, leased, b))[200]!
  // After ten seconds, b counts alone.
  if (!b.log.includes('SLUICE_NODE_GONE')) t.ok(rest >= REQUESTS * 0.9 - 100 && rest <= REQUESTS - 100, `${rest} left`)
})
