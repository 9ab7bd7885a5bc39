import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { HOST, ownPort } from '../support/address.js'
import { makeCertificates } from '../support/certificates.js'
import { decided, lines, member } from '../support/cluster-member.js'
import type { Daemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { type RedisServer, SERVER, startRedis } from '../support/redis-server.js'
import { until } from '../support/until.js'

/** A throttle whose limit several daemons share, with a real Redis. */

for (const accuracy of ['exact', 'leased']) {
  t.test(`three daemons let through the limit together, ${accuracy}`, async t => {
    const below = testFolder(t)
    const redis = await startRedis(t, below)
    if (!redis) return
    const settings = { below, redis: `{ url: "${redis.url}", timeout: 60s }`, more: `accuracy: ${accuracy}` }
    const daemons = await Promise.all([0, 1, 2].map(() => member(t, settings)))
    let passed = 0
    for (const daemon of daemons) {
      daemon.child.stdin!.end(lines(60) + lines(10, 'b'))
      passed += (await daemon.ended(t)).passed!
    }
    t.equal(passed, 100 + 30)
  })
}

/** Ends a daemon that was given 5 events of one bucket, with a limit of 3. */
async function threeOfFive(t: Test, daemon: Daemon): Promise<void> {
  daemon.child.stdin!.write(lines(5))
  const scrape = await decided(daemon, 5)
  t.equal(scrape.sum('sluice_throttle_backend_up'), 1, daemon.stderr)
  t.equal(scrape.sum('sluice_throttle_alone_events_total'), 0)
  daemon.child.stdin!.end()
  t.equal((await daemon.ended(t)).passed, 3)
}

t.test(
  'a server with a password, an ACL user with the documented permissions alone, a number of a database',
  async t => {
    const below = testFolder(t, { password: 'one-secret\n', other: 'acl-secret\n' })
    const acl = 'user sluice on >acl-secret ~sluice:* +ping +eval +evalsha +time +get +set +select'
    writeFileSync(join(below, 'users.acl'), `user default on >one-secret ~* +@all\n${acl}\n`)
    const redis = await startRedis(t, below, ['--aclfile', join(below, 'users.acl')])
    if (!redis) return
    for (const [options, group] of [
      ['password_file: ../password', 'g1'],
      ['username: sluice, password_file: ../other', 'g2'],
    ] as const) {
      const settings = { below, limit: 3, more: `group: ${group}` }
      await threeOfFive(
        t,
        await member(t, { ...settings, redis: `{ url: "${redis.url}/2", timeout: 60s, ${options} }` }),
      )
    }
  },
)

// The build of another server may come without TLS, and Sluice's side of it is the same.
if (!process.env[SERVER])
  t.test('TLS is verified, and the authority is that of ca_file', async t => {
    const openssl = needs(t, 'openssl')
    if (!openssl) return
    const below = testFolder(t)
    const certificates = makeCertificates(openssl, below, ['server', 'client'])
    const tls = ['--tls-port', 'PORT', '--tls-cert-file', certificates.path('server.pem')]
    const more = ['--tls-key-file', certificates.path('server.key'), '--tls-ca-cert-file', certificates.path('ca.pem')]
    const redis = await startRedis(t, below, [...tls, ...more])
    if (!redis) return
    const url = `url: "rediss://${HOST}:${redis.port}"`
    const files = `ca_file: ${certificates.path('ca.pem')}, cert_file: ${certificates.path('client.pem')}, key_file: ${certificates.path('client.key')}`
    await threeOfFive(t, await member(t, { below, limit: 3, redis: `{ ${url}, timeout: 60s, ${files} }` }))
    const untrusting = await member(t, { below, limit: 3, redis: `{ ${url} }` })
    await untrusting.until(() => /"reason":"connection","error":"[^"]*certificate/.test(untrusting.stderr))
    t.equal((await untrusting.scrape()).sum('sluice_throttle_backend_up'), 0)
  })

t.test('Sentinels name the primary', async t => {
  const below = testFolder(t, { 'sentinel.conf': '' })
  const redis = await startRedis(t, below)
  if (!redis) return
  writeFileSync(join(below, 'sentinel.conf'), `sentinel monitor main ${HOST} ${redis.port} 1\n`)
  const sentinel = await startRedis(t, below, ['--sentinel'], undefined, join(below, 'sentinel.conf'))
  const url = `url: "${sentinel!.url}"`
  await threeOfFive(
    t,
    await member(t, { below, limit: 3, redis: `{ ${url}, timeout: 60s, sentinel: { name: main } }` }),
  )
  const lost = await member(t, { below, limit: 3, redis: `{ ${url}, sentinel: { name: other } }` })
  await lost.until(() => /knows no primary named other/.test(lost.stderr))
})

t.test('a Redis Cluster of three nodes', async t => {
  const below = testFolder(t)
  const cli = needs(t, 'redis-cli')
  if (!cli) return
  const nodes: RedisServer[] = []
  for (const n of [1, 2, 3]) {
    const node = await startRedis(t, below, ['--cluster-enabled', 'yes', '--cluster-config-file', `nodes-${n}.conf`])
    if (!node) return
    nodes.push(node)
  }
  const places = nodes.map(({ port }) => `${HOST}:${port}`)
  await promisify(execFile)(cli, ['--cluster', 'create', ...places, '--cluster-yes'])
  const ask = async (port: number) =>
    (await promisify(execFile)(cli, ['-h', HOST, '-p', `${port}`, 'cluster', 'info'])).stdout
  for (const { port } of nodes)
    await until(`node ${port} of the cluster`, async () => (await ask(port)).includes('cluster_state:ok'))
  const redis = `{ url: "${nodes[0]!.url}", cluster: true, timeout: 60s }`
  const daemon = await member(t, { below, limit: 3, redis })
  const apps = Array.from({ length: 100 }, (_, i) => lines(5, `app${i}`)).join('')
  daemon.child.stdin!.write(apps)
  const scrape = await decided(daemon, 500)
  t.equal(scrape.sum('sluice_throttle_alone_events_total'), 0, daemon.stderr)
  t.ok(scrape.sum('sluice_throttle_backend_requests_total') <= 3, 'a batch costs one round trip')
  daemon.child.stdin!.end()
  t.equal((await daemon.ended(t)).passed, 300)
})

t.test('a wrong password is an error that says what to do, without the password', async t => {
  const below = testFolder(t)
  const redis = await startRedis(t, below, ['--requirepass', 'the-right-one'])
  if (!redis) return
  const daemon = await member(t, { below, limit: 8, redis: `{ url: "${redis.url}", password: the-wrong-one }` })
  daemon.child.stdin!.write(lines(5))
  await decided(daemon, 5)
  const [error] = daemon.logs().filter(({ code }) => code === 'SLUICE_THROTTLE_BACKEND')
  t.match(error, { reason: 'denied', error: /password is wrong; correct/ })
  t.notMatch(daemon.stderr, /the-wrong-one/)
  daemon.child.stdin!.end()
  t.equal((await daemon.ended(t)).passed, 2, 'the share of one of four')
})

t.test('while the server is away: pass, discard and wait; and it recovers by itself', async t => {
  const below = testFolder(t)
  const port = await ownPort()
  const started = async () => startRedis(t, below, [], port)
  const first = await started()
  if (!first) return
  await first.kill()
  const redis = `{ url: "redis://${HOST}:${port}", timeout: 60s }`
  const all = ['pass', 'discard', 'wait'].map(policy =>
    member(t, { below, limit: 3, redis, more: `on_backend_failure: ${policy}\n    group: ${policy}`, members: '' }),
  )
  const [pass, discard, wait] = await Promise.all(all)
  for (const daemon of [pass!, discard!, wait!]) daemon.child.stdin!.write(lines(5))
  t.equal((await decided(pass!, 5)).sum('sluice_throttle_events_total', { decision: 'fail_open' }), 5)
  const scrape = await decided(discard!, 5)
  t.equal(scrape.sum('sluice_component_discarded_events_total', { reason: 'no_backend' }), 5)
  const held = await wait!.scrapedUntil(scrape => scrape.events('limited').inFlight === 5)
  t.equal(held.sum('sluice_throttle_events_total'), 0)
  await started()
  t.equal((await decided(wait!, 5)).sum('sluice_throttle_events_total', { decision: 'passed' }), 3)
  for (const daemon of [pass!, discard!]) {
    await daemon.scrapedUntil(scrape => scrape.sum('sluice_throttle_backend_up') === 1)
    daemon.child.stdin!.end(lines(5))
    const { passed } = await daemon.ended(t)
    t.equal(passed, daemon === pass ? 8 : 3)
  }
})
