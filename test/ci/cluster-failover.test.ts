import { execFile } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { HOST } from '../support/address.js'
import { decided, lines, member } from '../support/cluster-member.js'
import type { Daemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { type RedisServer, startRedis } from '../support/redis-server.js'
import { until } from '../support/until.js'

/** The primary of a real group of Redis servers is killed. */

const LIMIT = 100
const SHARE = LIMIT / 4

const passedBy = async (daemon: Daemon) =>
  (await daemon.scrape()).sum('sluice_throttle_events_total', { decision: 'passed' })

t.test('Sentinels make a replica the primary: the daemon follows, within the bound', async t => {
  const below = testFolder(t)
  const cli = needs(t, 'redis-cli')
  if (!cli) return
  const ask = async (port: number, ...command: string[]) =>
    (await promisify(execFile)(cli, ['-h', HOST, '-p', String(port), ...command])).stdout
  const primary = await startRedis(t, below)
  if (!primary) return
  const replica = (await startRedis(t, below, ['--replicaof', `${HOST} ${primary.port}`]))!
  const replication = () => ask(replica.port, 'info', 'replication')
  await until('a replica', async () => (await replication()).includes('master_link_status:up'), { show: replication })
  const sentinels: RedisServer[] = []
  for (const n of [1, 2, 3]) {
    const folder = join(below, `sentinel-${n}`)
    mkdirSync(folder)
    const monitor = `sentinel monitor main ${HOST} ${primary.port} 2\n`
    // The Sentinels notice nothing until the test lowers this time.
    const times = 'sentinel down-after-milliseconds main 3600000\nsentinel failover-timeout main 5000\n'
    writeFileSync(join(folder, 'sentinel.conf'), monitor + times)
    sentinels.push((await startRedis(t, folder, ['--sentinel'], undefined, join(folder, 'sentinel.conf')))!)
  }
  for (const { port } of sentinels) {
    const about = () => ask(port, 'sentinel', 'master', 'main')
    const knows = async () => /num-slaves\n1\n.*num-other-sentinels\n2\n/s.test(await about())
    await until('a Sentinel that knows the others', knows, { show: about })
  }
  const [first, ...others] = sentinels.map(({ url }) => `"${url}"`)
  const redis = `{ url: ${first}, nodes: [${others.join(', ')}], sentinel: { name: main }, timeout: 10s }`
  const daemon = await member(t, { below, limit: LIMIT, redis })
  const isUp = (up: number) => daemon.scrapedUntil(scrape => scrape.sum('sluice_throttle_backend_up') === up)
  await isUp(1)
  daemon.child.stdin!.write(lines(40))
  await decided(daemon, 40)
  await primary.kill()
  await isUp(0)
  daemon.child.stdin!.write(lines(50))
  await decided(daemon, 90)
  t.ok((await passedBy(daemon)) <= 40 + LIMIT / 10 + SHARE, 'meanwhile its lease and its share')
  for (const { port } of sentinels) await ask(port, 'sentinel', 'set', 'main', 'down-after-milliseconds', '1000')
  await isUp(1)
  t.match(await ask(replica.port, 'info', 'replication'), /role:master/)
  daemon.child.stdin!.write(lines(200))
  await decided(daemon, 290)
  const passed = await passedBy(daemon)
  t.ok(passed >= LIMIT && passed <= 2 * LIMIT + SHARE, `${passed} passed`)
  t.comment(`${passed} passed of a limit of ${LIMIT}; at most ${2 * LIMIT + SHARE} may`)
  t.match(await ask(replica.port, 'keys', '*'), /sluice:f:\{limited\./)
  t.match(daemon.stderr, /the server of the cluster limit replies again/)
})

t.test('a node of a Redis Cluster is lost: its replica takes over, and all buckets are decided there', async t => {
  const below = testFolder(t)
  const cli = needs(t, 'redis-cli')
  if (!cli) return
  const nodes: RedisServer[] = []
  for (let n = 0; n < 6; n++) {
    const options = ['--cluster-enabled', 'yes', '--cluster-config-file', `nodes-${n}.conf`]
    const node = await startRedis(t, below, [...options, '--cluster-node-timeout', '1000'])
    if (!node) return
    nodes.push(node)
  }
  const run = async (...args: string[]) => (await promisify(execFile)(cli, args)).stdout
  const places = nodes.map(({ port }) => `${HOST}:${port}`)
  await run('--cluster', 'create', ...places, '--cluster-replicas', '1', '--cluster-yes')
  for (const { port } of nodes) {
    const isOk = async () =>
      (await run('-h', HOST, '-p', `${port}`, 'cluster', 'info')).includes('cluster_state:ok') &&
      !(await run('-h', HOST, '-p', `${port}`, 'info', 'replication')).includes('master_link_status:down')
    await until(`node ${port} of the cluster`, isOk)
  }
  const [first, ...others] = nodes.map(({ url }) => `"${url}"`)
  const redis = `{ url: ${first}, nodes: [${others.join(', ')}], cluster: true, timeout: 10s }`
  const daemon = await member(t, { below, limit: 3, redis, more: 'accuracy: exact' })
  const apps = Array.from({ length: 100 }, (_, i) => lines(2, `app${i}`)).join('')
  await daemon.scrapedUntil(scrape => scrape.sum('sluice_throttle_backend_up') === 1)
  daemon.child.stdin!.write(apps)
  await decided(daemon, 200)
  t.equal(await passedBy(daemon), 200)

  const roles = await Promise.all(nodes.map(({ port }) => run('-h', HOST, '-p', `${port}`, 'role')))
  const lost = roles.findIndex((role, n) => n > 0 && role.startsWith('master'))
  await nodes[lost]!.kill()
  const alone = async () => (await daemon.scrape()).sum('sluice_throttle_alone_events_total')
  // While the node is missed, batches with its buckets are decided alone; then all are asked of the others.
  let count = 200
  await until('a batch that is not decided alone', async () => {
    const before = await alone()
    daemon.child.stdin!.write(apps)
    count += 200
    await decided(daemon, count)
    return (await alone()) === before && (await daemon.scrape()).sum('sluice_throttle_backend_up') === 1
  })
  const passed = await passedBy(daemon)
  // Each bucket twice its limit at most, since a replica may be behind, and the share of one.
  t.ok(passed >= 300 && passed <= 100 * (2 * 3 + 1), `${passed} passed`)
  t.comment(`${passed} of ${count} events passed in 100 buckets with a limit of 3`)
})
