import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { systemClock } from '../../src/lib/time.js'
import { RedisConnector } from '../../src/net/redis/connector.js'
import { redisOptions } from '../../src/net/redis/options.js'
import { startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { startRedis } from '../support/redis-server.js'
import { until } from '../support/until.js'

const EVENTS = 30_000
const AT_ONCE = 1000
const STREAM = Buffer.from('logs')

t.test(
  'a stream of a real server, two daemons of a group, kills and a restart of the server: nothing is lost',
  async t => {
    const folder = testFolder(t)
    const keeps = ['--appendonly', 'yes', '--appendfsync', 'always']
    const first = await startRedis(t, folder, keeps)
    if (!first) return
    let server = first
    const context = { log: pino({ level: 'silent' }), clock: systemClock }
    const connector = new RedisConnector(redisOptions.parse({ url: server.url }), context)
    let client = await connector.connect(() => {}, AbortSignal.timeout(60_000))
    t.teardown(() => client.destroy())
    const add = (from: number, to: number) =>
      Promise.all(
        Array.from({ length: to - from }, (_, i) =>
          client.command(STREAM, ['XADD', 'logs', '*', 'n', String(from + i), 'text', 'é\n"']),
        ),
      )
    const out = (name: string) => join(folder, name, 'out.ndjson')
    const start = (name: string) => {
      mkdirSync(join(folder, name), { recursive: true })
      return startDaemon(
        t,
        join(folder, name),
        `sources: { in: { type: redis, url: '${server.url}', stream: logs, consumer: ${name}, decode: json } }
destinations: { out: { type: file, inputs: [in], path: out.ndjson, encoding: json } }
`,
      )
    }
    const eventsOf = (name: string) =>
      existsSync(out(name))
        ? readFileSync(out(name), 'utf8')
            .split('\n')
            .slice(0, -1)
            // A kill may tear a line, which then comes again.
            .filter(line => line.endsWith('}'))
            .map(line => JSON.parse(line) as Record<string, unknown>)
        : []
    const seen = () => new Set([...eventsOf('a'), ...eventsOf('b')].map(({ n }) => n)).size

    const adding = (async () => {
      for (let n = 0; n < EVENTS / 2; n += AT_ONCE) await add(n, n + AT_ONCE)
    })()
    const b = await start('b')
    let a = await start('a')
    for (let kills = 1; kills <= 3; kills++) {
      await until('some more events', () => seen() > (kills * EVENTS) / 10)
      a.child.kill('SIGKILL')
      await a.exit
      a = await start('a')
    }
    await adding
    await server.kill()
    client.destroy()
    server = (await startRedis(t, folder, keeps, first.port))!
    client = await connector.connect(() => {}, AbortSignal.timeout(60_000))
    const pong = () => client.command(STREAM, ['PING']).catch(() => undefined)
    await until('the server to have loaded', async () => (await pong()) === 'PONG')
    for (let n = EVENTS / 2; n < EVENTS; n += AT_ONCE) await add(n, n + AT_ONCE)
    await until('all events', () => seen() === EVENTS)
    const all = [...eventsOf('a'), ...eventsOf('b')]
    t.equal(all.filter(({ text }) => text !== 'é\n"').length, 0, 'none of them is changed')
    t.comment(`${all.length - EVENTS} came twice`)
    t.ok(eventsOf('b').length > 0, 'both of them read')
    await until('all are acknowledged', async () => {
      const [pending] = (await client.command(STREAM, ['XPENDING', 'logs', 'sluice'])) as [number]
      return pending === 0
    })
    await Promise.all([a.stop(t), b.stop(t)])
  },
)
