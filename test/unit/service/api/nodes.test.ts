import { randomBytes } from 'node:crypto'
import { cpSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { RateLimiter } from '../../../../src/service/api/domain/keys/rate-limiter.js'
import { SharedNodes } from '../../../../src/service/api/nodes.js'
import type { Store } from '../../../../src/service/api/store/store.js'
import { testFolder } from '../../../support/folder.js'
import { ManualTime } from '../../../support/manual-time.js'
import { openTestStore } from '../../../support/postgres.js'
import { until } from '../../../support/until.js'

t.test('nodes that share a store', async t => {
  const folder = testFolder(t, { a: {}, b: {}, c: {} })
  const store = await openTestStore(join(folder, 'store'))
  t.teardown(() => store.close())
  // A node that has to wait for the store does not look gone to one that beats meanwhile.
  let beaten: Promise<unknown> = Promise.resolve()
  const change: Store['change'] = (name, work) => {
    if (name.startsWith('job ')) return store.change(name, work)
    const done = beaten.then(() => store.change(name, work))
    beaten = done.catch(() => {})
    return done
  }
  const inTurn = { change, run: store.run.bind(store) } as Partial<Store> as Store
  const [time, logged] = [new ManualTime(), [] as Record<string, unknown>[]]
  const log = pino({}, { write: line => logged.push(JSON.parse(line)) })
  const open = async (name: string, clock = time) => {
    const options = { store: inTurn, dataDir: join(folder, name), clock, random: randomBytes, log, beatMs: 5 }
    const node = await SharedNodes.open(options)
    node.events = () => 0
    t.teardown(() => node.close())
    return node
  }
  const has = (code: string) => until(() => logged.find(one => one.code === code))
  const [a, b] = [await open('a'), await open('b')]
  await until(() => a.live === 2 && b.live === 2)
  const limiter = new RateLimiter({ limit: 5, windowMs: 1000 }, time, a)
  t.match([limiter.take('k'), limiter.take('k')], [{ limit: 2, remaining: 1 }, { allowed: true }])
  t.match(limiter.take('k'), { allowed: false, remaining: 0 }, 'its share of the limit')

  t.same([await a.takes('job', 1000), await b.takes('job', 1000), await a.takes('other', 1)], [true, false, true])
  t.equal((await Promise.all([a, b, a, b].map(node => node.takes('third', 1000)))).filter(Boolean).length, 1)
  await time.advance(1000)
  t.same([await b.takes('job', 1000), await a.takes('job', 1000)], [true, false])

  b.events = () => 3
  await b.close()
  t.match(await has('SLUICE_NODE_GONE'), { level: 40, events: 3 })
  t.match([a.live, a.gone], [1, [{ events: 3 }]])
  t.match(limiter.take('k'), { limit: 5 })
  const again = await open('b')
  again.events = () => undefined
  await until(() => a.live === 2)
  t.same(a.gone, [])
  await until(() => logged.some(({ msg }) => msg === 'a node of the service runs again'))
  t.match(await store.all('SELECT events FROM node ORDER BY events'), [{ events: 0 }, { events: 3 }], 'not known yet')
  again.events = () => 0
  await again.close()
  await until('a node that ended to be forgotten', () => a.live === 1)
  t.same(a.gone, [])

  await store.run("INSERT INTO node (id, name, beat, seen_at, events) VALUES ($1, 'x', 1, $2, 7)", 'x', 'then')
  await until(() => a.gone.length === 1)
  await time.advance(29 * 86_400_000)
  const seen = 'SELECT id FROM node WHERE seen_at = $1'
  await until('a to be seen now', () => store.get(seen, new Date(time.wall()).toISOString()))
  await a.forgetOld()
  t.equal((await store.all('SELECT id FROM node')).length, 2, 'its disk may come back')
  await store.run("UPDATE node SET seen_at = '2000-01-01T00:00:00.000Z' WHERE id = 'x'")
  await a.forgetOld()
  t.equal((await store.all('SELECT id FROM node')).length, 1)

  mkdirSync(join(folder, 'copy'))
  cpSync(join(folder, 'a/node-id'), join(folder, 'copy/node-id'))
  const copy = await open('copy')
  t.match(await has('SLUICE_NODE_TWICE'), { level: 50, msg: /remove .*node-id/ })
  const beat = async () => (await store.get<{ beat: number }>('SELECT max(beat) AS beat FROM node'))!.beat
  const before = await beat()
  await until(async () => (await beat()) > before + 10)
  t.ok(logged.filter(({ code }) => code === 'SLUICE_NODE_TWICE').length <= 2, 'each node logs it once a minute')
  await copy.close()
  const wrong = new ManualTime()
  await wrong.advance(60_000)
  const c = await open('c', wrong)
  await until(() => logged.find(({ msg }) => /the clock of another node/.test(String(msg))))
  const taken = [await a.takes('job', 1000), await c.takes('job', 1000), await c.takes('job', 1000)]
  t.same(taken, [true, true, false], 'what a clock that is far ahead has claimed is not claimed until then')
})
