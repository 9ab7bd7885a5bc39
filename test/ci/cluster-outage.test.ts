import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { HOST, listening, ownPort } from '../support/address.js'
import { command } from '../support/cli.js'
import { decided, lines, member } from '../support/cluster-member.js'
import { testFolder } from '../support/folder.js'
import { startRedis } from '../support/redis-server.js'
import { sluice } from '../support/sluice.js'

/** What commands say of a cluster limit, and that those that try a configuration ask no server. */

const done = (...args: string[]) => command(args)

t.test('status, top, explain and /readyz tell of a server that is away, and of the bucket', async t => {
  const below = testFolder(t)
  const port = await ownPort()
  const redis = await startRedis(t, below, [], port)
  if (!redis) return
  const daemon = await member(t, { below, name: 'one', limit: 100, redis: `{ url: "${redis.url}", timeout: 5s }` })
  const [config, socket] = ['sluice.yaml', 'state/sluice.sock'].map(name => join(below, 'one', name)) as [
    string,
    string,
  ]
  daemon.child.stdin!.write(lines(20))
  await decided(daemon, 20)
  const explain = () => done('explain', config, '--live', '{"app":"a"}')
  t.match((await explain()).stdout, /now: its bucket has passed 2\d of 100 in 1h/)
  t.match((await done('status', '--socket', socket)).stdout, /Nothing is wrong/)

  await redis.kill()
  await daemon.scrapedUntil(scrape => scrape.sum('sluice_throttle_backend_up') === 0)
  const status = await done('status', '--socket', socket)
  t.equal(status.code, 1)
  const text = status.stdout.replace(/\s+/g, ' ')
  t.match(text, /limited cannot ask the server of its cluster limit: .*(ECONNREFUSED|closed)/i)
  t.match(text, /Since \d\d:\d\d:\d\d, \d+ failures?, .* this daemon passes its share of the limits/)
  t.match(text, /limited \(throttle\) .*no server, 1 key/)
  const top = sluice(['top', '--socket', socket])
  await top.until(() => /limited cannot ask the server/.test(top.stdout))
  top.child.kill('SIGKILL')
  const live = await explain()
  t.match(
    live.stdout.replace(/\s+/g, ' '),
    /now: the server of the cluster limit has not replied since 20.* share of the/,
  )
  const ready = await daemon.get('/readyz')
  t.equal(ready.status, 200)
  t.match(JSON.parse(ready.body), { processors: [{ id: 'limited', attempts: Number, since: /^20/, reason: String }] })

  await startRedis(t, below, [], port)
  await daemon.scrapedUntil(scrape => scrape.sum('sluice_throttle_backend_up') === 1)
  t.match((await done('status', '--socket', socket)).stdout, /Nothing is wrong/)
  t.notMatch((await daemon.get('/readyz')).body, /processors/)
})

t.test('a password that the server repeats in an error is not shown', async t => {
  const server = createServer(socket => {
    socket.on('error', () => {})
    socket.on('data', part => socket.write(`-ERR syntax: ${part.toString().replace(/\s+/g, ' ')}\r\n`))
  })
  const url = `redis://${HOST}:${await listening(t, server)}`
  const daemon = await member(t, { below: testFolder(t), limit: 8, redis: `{ url: "${url}", password: the-secret }` })
  daemon.child.stdin!.write(lines(5))
  await decided(daemon, 5)
  const [error] = daemon.logs().filter(({ code }) => code === 'SLUICE_THROTTLE_BACKEND')
  t.match(error, { error: /syntax: .*AUTH.*\[hidden\]/ })
  t.notMatch(daemon.stderr, /the-secret/)
  daemon.child.stdin!.end()
  t.equal((await daemon.ended(t)).passed, 2, 'the share of one of four')
})

/** A server that counts its connections. */
async function counting(t: Test) {
  let connections = 0
  const server = createServer(socket => {
    connections++
    socket.destroy()
  })
  return { port: await listening(t, server), connections: () => connections }
}

t.test('validate, test, explain and simulate ask no server', async t => {
  const server = await counting(t)
  const folder = testFolder(t, { 'in.log': '{"app":"a","ts":"2026-01-01T00:00:00Z"}\n'.repeat(5) })
  const config = join(folder, 'sluice.yaml')
  const text = `
sources: { in: { type: file, include: [${folder}/in.log], decode: json } }
processors:
  shared:
    type: throttle
    inputs: [in]
    limit: 2
    window: 1 Seconds
    key_field: .app
    scope: cluster
    on_backend_failure: wait
    redis: { url: "redis://${HOST}:${server.port}" }
destinations: { out: { type: file, inputs: [shared], path: ${folder}/out.log } }
tests:
  - name: two in a second
    steps: [{ into: in, events: [{ app: a }, { app: a }, { app: a }, { app: b }] }, { at: 1s, into: in, events: [{ app: a }] }]
    expect: { shared: 4, shared.discarded: 1 }
`
  writeFileSync(config, text)
  const validated = await done('validate', config)
  t.equal(validated.code, 0, validated.stderr)
  const tested = await done('test', config)
  t.equal(tested.code, 0, tested.stdout)
  t.match(
    tested.stderr,
    /shared: tested as a single daemon that has the whole limits of its cluster; no server is asked/,
  )
  t.equal((await done('explain', config, '{"app":"a"}')).code, 0)
  const simulated = await done('simulate', '--config', config, join(folder, 'in.log'))
  t.equal(simulated.code, 0, simulated.stderr)
  // Connections are accepted in the order in which they came.
  await once(connect(server.port, HOST), 'close')
  t.equal(server.connections(), 1, 'only that of the test')
})
