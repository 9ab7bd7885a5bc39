import { pino } from 'pino'
import t, { type Test } from 'tap'
import { components } from '../../../../../src/components/list.js'
import { RedisBackend } from '../../../../../src/components/processors/throttle/cluster/redis-backend.js'
import { ComponentCounters } from '../../../../../src/engine/flow/counters.js'
import type { RedisConnection } from '../../../../../src/net/redis/connection.js'
import {
  type RateLimit,
  RateLimiter,
  type RateLimits,
} from '../../../../../src/service/api/domain/keys/rate-limiter.js'
import { SharedRates } from '../../../../../src/service/api/domain/keys/shared-rates.js'
import { openService, outcome } from '../../../../support/api-service.js'
import { advanceUntil, ManualTime, settle } from '../../../../support/manual-time.js'
import { ScriptModel } from '../../../../support/script-model.js'

/** A server in this process: the model of its script, behind connections that break. */
class Server {
  readonly time = new ManualTime()
  state: 'up' | 'silent' | 'down' = 'up'
  /** Keys with this in their names hold something else. */
  foreign = ''
  /** Of scripts. */
  calls = 0
  readonly #model = new ScriptModel()
  readonly #open = new Set<(error: Error) => void>()

  connect = async (lost: (error: Error) => void): Promise<RedisConnection> => {
    if (this.state === 'down') throw new Error('connect ECONNREFUSED')
    this.#open.add(lost)
    return { isCluster: false, command: (_key, args) => this.#execute(args), destroy: () => this.#open.delete(lost) }
  }

  /** Ends as a server that is killed: it keeps nothing. */
  kill(): void {
    this.state = 'down'
    this.#model.clear()
    for (const lost of this.#open) lost(new Error('the connection broke'))
  }

  #execute(args: readonly (string | Buffer)[]): Promise<unknown> {
    this.calls++
    const count = 3 + Number(args[2])
    const keys = args.slice(3, count) as Buffer[]
    // Its clock differs from those of the nodes.
    const micros = Math.floor(this.time.now() * 1000) + 1e15
    if (this.state === 'silent') return new Promise(() => {})
    const foreign = this.foreign ? keys.filter(key => key.includes(this.foreign)).length : 0
    return Promise.resolve([...this.#model.execute(keys, args.slice(count) as Buffer[], micros).slice(0, -1), foreign])
  }
}

const RATE: RateLimit = { limit: 1000, windowMs: 60_000 }

async function nodesOf(t: Test, server: Server, count = 2) {
  const { time } = server
  const live = { live: count }
  const logged: Record<string, unknown>[] = []
  const log = pino({}, { write: line => logged.push(JSON.parse(line)) })
  const open = () => {
    const metrics = new ComponentCounters('service.limits', 'processor', 'throttle')
    const options = { group: 'g', timeoutMs: 250 } as const
    const rates = new SharedRates(new RedisBackend(server.connect, options, { log, clock: time, metrics }), live, time)
    t.teardown(() => rates.close())
    return rates
  }
  const rates = Array.from({ length: count }, open)
  await settle()
  const limiters = (rate = RATE, waits = false) =>
    rates.map(one => one.limiter('requests', new RateLimiter(rate, time, live), waits))
  return { time, live, logged, rates, limiters }
}

/** How many of the uses that begin at once are allowed. */
async function allowed(uses: number, key: string, ...limiters: readonly RateLimits[]): Promise<number> {
  const states = await Promise.all(Array.from({ length: uses }, (_, n) => limiters[n % limiters.length]!.take(key)))
  return states.filter(state => state.allowed).length
}

/** The same, one after the other. */
async function allowedInTurn(uses: number, key: string, ...limiters: readonly RateLimits[]): Promise<number> {
  let sum = 0
  for (let n = 0; n < uses; n++) if ((await limiters[n % limiters.length]!.take(key)).allowed) sum++
  return sum
}

t.test('a client gets its whole limit at one node, and no more at several', async t => {
  const server = new Server()
  const { time, limiters } = await nodesOf(t, server, 3)
  const [a, b, c] = limiters() as [RateLimits, RateLimits, RateLimits]
  for (const count of [allowed, allowedInTurn]) {
    t.equal(await count(1100, `one ${count.name}`, a), 1000)
    const taken = await count(1100, `three ${count.name}`, a, b, c)
    t.ok(taken >= 900 && taken <= 1000, `all but leases: ${taken}`)
    await time.advance(2000)
    t.equal(await count(1100, `three ${count.name}`, a, b, c), 1000 - taken, 'the rest, and no more')
  }
  const { calls } = server
  t.equal(await allowedInTurn(900, 'other', a), 900)
  t.ok(server.calls - calls < 40, `${server.calls - calls} calls`)
  t.match(await a.take('one allowed'), { limit: 1000, allowed: false, remaining: 0, resetMs: 56_000, waitMs: 56_000 })
  await time.advance(55_000)
  t.match(await a.take('one allowed'), { allowed: false, resetMs: 1000, waitMs: 1000 })
  await time.advance(1000)
  t.match(await a.take('one allowed'), { allowed: true, remaining: 999, resetMs: 60_000, waitMs: 0 })
  for (let left = 998; left > 900; left--) t.match(await a.take('one allowed'), { remaining: left })
  await time.advance(60_000)
  t.equal(await allowed(1100, 'one allowed', b), 1000, 'the rest of a lease ends with its window')
})

t.test('units that a node does not use come back, except those of a node that was killed', async t => {
  const { time, rates, limiters } = await nodesOf(t, new Server(), 3)
  const [a, b, c] = limiters() as [RateLimits, RateLimits, RateLimits]
  t.equal(await allowedInTurn(300, 'idle', a), 300)
  await time.advance(2000)
  t.equal(await allowed(1000, 'idle', b), 700, 'after a second')
  t.equal(await allowedInTurn(300, 'ended', a), 300)
  await rates[0]!.close()
  t.equal(await allowed(1000, 'ended', b), 700, 'at the end')
  t.equal(await allowedInTurn(300, 'killed', c), 300)
  const rest = await allowed(1000, 'killed', b)
  t.ok(rest >= 600 && rest < 700, `all but a lease, a tenth of the limit at most: ${rest}`)
})

t.test('a use waits for units that other nodes have leased and do not use', async t => {
  const { time, limiters } = await nodesOf(t, new Server(), 3)
  const [a, b, c] = limiters(RATE, true) as [RateLimits, RateLimits, RateLimits]
  t.equal(await allowedInTurn(100, 'k', a), 100)
  t.equal(await allowedInTurn(100, 'k', c), 100)
  const burst = Promise.all(Array.from({ length: 1000 }, () => b.take('k')))
  for (let n = 0; n < 3; n++) await time.advance(2000)
  const states = await burst
  t.equal(states.filter(one => one.allowed).length, 800, 'all that is left')
  const last = b.take('k')
  await time.advance(2000)
  t.match(await last, { allowed: false, remaining: 0 }, 'nobody has more')
  t.match(await b.take('k'), { allowed: false, remaining: 0 }, 'and nobody waits for more')
  const all = async (uses: number, limiter: RateLimits) => {
    const burst = allowed(uses, 'again', limiter)
    await settle()
    await time.advance(2000)
    return await burst
  }
  t.equal(await allowedInTurn(70, 'again', a), 70, 'which has leased 64 more')
  t.equal(await all(900, b), 900)
  t.equal(await allowedInTurn(1, 'again', a), 1, 'which leases another one')
  t.equal(await all(60, b), 1000 - 70 - 900 - 1, 'after a wait that gained something, a refused use waits again')
  t.equal(await allowedInTurn(100, 'few', a), 100)
  let refused = 0
  const flood = Promise.all(
    Array.from({ length: 5000 }, async () => {
      if (!(await b.take('few')).allowed) refused++
    }),
  )
  await settle()
  t.ok(refused >= 3900 && refused <= 4100, `${refused} of 5000 refused at once: the others may hold 200`)
  for (let n = 0; n < 3; n++) await time.advance(2000)
  await flood
  t.equal(refused, 4100)
})

t.test('while Redis is away no request waits or is refused for that, and each node allows its share', async t => {
  const server = new Server()
  const { time, live, logged, limiters } = await nodesOf(t, server)
  const [a, b] = limiters() as [RateLimits, RateLimits]
  server.kill()
  t.match(a.take('k'), { limit: 500, allowed: true }, 'at once')
  t.equal(await allowed(2000, 'k', a, b), 999)
  t.match(logged, [{ code: 'SLUICE_THROTTLE_BACKEND', reason: 'connection' }, {}])
  t.match(logged[0], { msg: /^cannot ask the server of service.limits.redis; each node allows its share/ })
  t.notMatch(logged[0], { on_backend_failure: /./ })

  server.state = 'up'
  await time.advance(60_000)
  t.match(logged.slice(2), [{ msg: /replies again/ }, { msg: /replies again/ }])
  t.equal(await allowed(1100, 'k', b), 1000)

  server.state = 'silent'
  const waiting = Promise.all([a.take('new'), a.take('other')])
  await settle()
  await time.advance(250)
  t.match(await waiting, [{ limit: 500, allowed: true }, { allowed: true }], 'once a time-out')
  t.match(a.take('new'), { limit: 500, remaining: 498 })

  server.state = 'up'
  await time.advance(60_000)
  server.foreign = 'changed'
  for (const key of ['changed', 'not changed', 'changed too'])
    t.match(await a.take(key), { limit: 1000, allowed: true }, 'the script replaces a key that another program wrote')
  const logs = logged.filter(({ reason }) => reason === 'foreign')
  t.match(logs, [{ code: 'SLUICE_THROTTLE_BACKEND', keys: 1, msg: /only Sluice writes keys that begin with sluice:/ }])
  t.equal(logs.length, 1, 'once a minute')
  server.foreign = ''

  live.live = 1
  const { calls } = server
  t.match(a.take('new'), { limit: 1000, allowed: true })
  t.equal(server.calls, calls, 'a node that runs alone does not ask')
})

t.test('nodes with different limits agree on what was used', async t => {
  const { limiters } = await nodesOf(t, new Server())
  const [a] = limiters({ ...RATE, limit: 200 })
  const [, b] = limiters()
  t.equal(await allowed(500, 'k', a!), 200)
  t.equal(await allowed(1000, 'k', b!), 800)
  t.match(await a!.take('k'), { limit: 200, allowed: false, remaining: 0 })
})

t.test('every limit of the service is shared', async t => {
  const limit = { limit: 7, windowMs: 600_000 }
  const limits = { requestsPerKey: { ...limit, limit: 70 }, failedTries: limit, newDaemons: limit, changes: limit }
  const { first, again, store } = await openService(t, limits)
  const { time, rates } = await nodesOf(t, new Server())
  const [a, b] = await Promise.all(rates.map(one => again(components, store, one)))
  const results = async (times: number, use: (service: typeof a, n: number) => Promise<unknown>) => {
    const outcomes: string[] = []
    for (let n = 0; n < times; n++) outcomes.push(await outcome(use(n % 2 === 0 ? a : b, n)))
    return Object.fromEntries([...new Set(outcomes)].map(one => [one, outcomes.filter(it => it === one).length]))
  }
  const enter = async (service: typeof a, token: string) =>
    service!.authenticate({ authorization: `Token ${token}`, address: '192.0.2.1' })
  const wrong = `sts_${'0'.repeat(40)}`
  t.same(await results(9, service => enter(service, wrong)), { '401 token_unknown': 7, '429 too_many_failed_tries': 2 })
  t.same(await results(2, service => enter(service, 'x')), { '429 too_many_failed_tries': 2 })
  const { key } = first.enterprise_service_account
  let entered: unknown
  void results(72, service => enter(service, key)).then(all => (entered = all))
  // The first request over the limit waits for the other node.
  await advanceUntil(time, 'all to be answered', () => entered !== undefined)
  t.same(entered, { done: 70, '429 too_many_requests': 2 })
  const manager = await enter(a, first.manager.key)
  const config = { destinations: { out: { type: 'blackhole', inputs: ['ingest'] } } }
  const { id } = (await a!.pipelines.create(manager, { title: 'p', config })).document
  t.same(await results(8, (service, n) => service!.pipelines.update(manager, id, { title: `q${n}` })), {
    done: 6,
    '429 too_many_changes': 2,
  })
  const reporter = await enter(a, first.service_account.key)
  const report = { pipeline_id: id, host: 'h', version: '1', revision: 1, health: 'ready' } as const
  t.same(await results(9, (service, n) => service!.fleet.report(reporter, { ...report, daemon_id: `d-${n}` })), {
    done: 7,
    '429 too_many_daemons': 2,
  })
})
