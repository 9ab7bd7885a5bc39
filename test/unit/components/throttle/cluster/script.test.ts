import { createClient } from '@redis/client'
import t, { type Test } from 'tap'
import { SCRIPT } from '../../../../../src/components/throttle/cluster/script.js'
import {
  type LeaseDemand,
  type LeaseGrant,
  NO_LEASE,
  readReply,
  SharedLimits,
  scriptCalls,
} from '../../../../../src/components/throttle/cluster/script-calls.js'
import type { Limit } from '../../../../../src/components/throttle/limit.js'
import { testFolder } from '../../../../support/folder.js'
import { startRedis } from '../../../../support/redis-server.js'
import { ScriptModel } from '../../../../support/script-model.js'
import { seeded } from '../../../../support/seeded.js'

/** The script as the server executes it, at times of the test. */
const AT_TIME = SCRIPT.replace("redis.call('TIME')", '{ARGV[3], ARGV[4]}')

async function server(t: Test) {
  const redis = await startRedis(t, testFolder(t))
  if (!redis) return undefined
  const client = createClient({ url: redis.url, RESP: 2 })
  client.on('error', () => {})
  await client.connect()
  t.teardown(() => client.isOpen && client.destroy())
  return client
}
type Client = NonNullable<Awaited<ReturnType<typeof server>>>

async function ask(client: Client, demands: readonly LeaseDemand[]): Promise<LeaseGrant[]> {
  const grants: LeaseGrant[] = []
  for (const call of scriptCalls('group', demands, false, Date.now())) {
    const reply = await client.sendCommand(['EVAL', SCRIPT, String(call.keys.length), ...call.keys, ...call.args])
    readReply(call, demands, reply, grants)
  }
  return grants
}

const need = (limits: SharedLimits, key: string, events: number, more: Partial<LeaseDemand> = {}): LeaseDemand => ({
  ...NO_LEASE,
  limits,
  key: Buffer.from(key),
  events,
  cost: events,
  ...more,
})

const HOUR = 3_600_000
const modes = ['fixed', 'aligned', 'gcra'] as const
const one = (mode: (typeof modes)[number], more: Partial<Limit> = {}) =>
  ({ mode, limit: 37, windowMs: 10 * HOUR, burst: 11, unit: 'events', ...more }) as Limit
const quota = {
  mode: 'quota',
  limit: 90,
  windowMs: 24 * HOUR,
  per: 'day',
  timeZone: 'Europe/Berlin',
  unit: 'events',
} as const

/** Sets of limits, and whether their events have costs and sizes. */
const SETS: readonly [name: string, limits: readonly Limit[], lists: boolean][] = [
  ...modes.map(mode => [mode, [one(mode)], false] as [string, Limit[], boolean]),
  ['two windows', [one('fixed'), one('aligned', { limit: 60, windowMs: 24 * HOUR })], false],
  ['a rate and a window', [one('gcra'), one('fixed', { limit: 20 })], false],
  ['a quota', [quota], false],
  ['costs', [one('fixed', { unit: 'cost' })], true],
  ['costs of gcra', [one('gcra', { unit: 'cost' })], true],
  ['events and bytes', [one('aligned', { limit: 12 }), one('fixed', { limit: 3000, unit: 'bytes' })], true],
  ['a rate of bytes, and a quota', [one('gcra', { limit: 3000, burst: 900, unit: 'bytes' }), quota], true],
]

t.test('the server does what the model says, for random demands at random times', async t => {
  const client = await server(t)
  if (!client) return
  for (const [name, limits, lists] of SETS) {
    const random = seeded(42)
    const below = (most: number) => Math.floor(random() * most)
    const shared = new SharedLimits(limits, 0.1)
    const model = new ScriptModel()
    await client.sendCommand(['FLUSHALL'])
    let now = Date.UTC(2026, 2, 28, 5) * 1000
    const tickets: [key: string, ticket: number][] = []
    let [refused, passed] = [0, 0]
    for (let round = 0; round < 300; round++) {
      // The server's clock may be set back.
      now += Math.floor((random() - 0.05) * HOUR * 1000)
      const demands = Array.from({ length: 1 + below(4) }, (_, i) => {
        const [key, ticket] = tickets[below(tickets.length)] ?? ['a', 0]
        const scale = limits[0]!.unit === 'cost' ? 1_000_000 : 1
        const back = { backCost: below(5) * scale, backBytes: below(300), ticket }
        if (random() < 0.2) return need(shared, key, 0, back)
        const spent = { spentCost: below(5) * scale, spentBytes: below(200), ...(random() < 0.1 && back) }
        const events = below(12)
        if (!lists) return need(shared, `k${i}`, events, spent)
        const costs = Array.from({ length: events }, () => [below(5) * scale, below(400)] as const)
        const [cost, bytes] = [0, 1].map(n => costs.reduce((sum, pair) => sum + pair[n]!, 0))
        return need(shared, `k${i}`, events, { ...spent, cost: cost!, bytes: bytes!, list: costs.flat() })
      })
      for (const call of scriptCalls('group', demands, false, now / 1000)) {
        const time = [String(Math.floor(now / 1e6)), String(now % 1e6)]
        const command = ['EVAL', AT_TIME, String(call.keys.length), ...call.keys, ...call.args, ...time]
        const got = (await client.sendCommand(command)) as (number | string)[]
        const expected = model.execute(call.keys, call.args, now)
        const close = got.every((value, i) =>
          typeof value === 'number' ? Math.abs(value - Number(expected[i])) <= 1 : value === expected[i],
        )
        if (!close || got.length !== expected.length)
          return t.same(got, expected, `${name}, round ${round}: ${JSON.stringify(demands)}`)
        const grants: LeaseGrant[] = []
        readReply(call, demands, got, grants)
        for (const [i, grant] of grants.entries()) {
          tickets.push([demands[i]!.key.toString(), grant.ticket])
          const count =
            typeof grant.passed === 'number' ? grant.passed : grant.passed.reduce((sum, one) => sum + one, 0)
          passed += count
          refused += demands[i]!.events - count
        }
      }
    }
    t.ok(passed > 100 && refused > 100, `${name}: ${passed} passed, ${refused} were refused`)
  }
})

t.test('more buckets than one call may have are asked about in several', async t => {
  const client = await server(t)
  if (!client) return
  const limits = new SharedLimits([one('fixed', { limit: 3 })], 0)
  const demands = Array.from({ length: 1234 }, (_, i) => need(limits, `k${i}`, i % 7))
  const grants = await ask(client, demands)
  t.same(
    grants.map(({ passed }) => passed),
    demands.map(({ events }) => Math.min(3, events)),
  )
})

t.test('buckets of two rules with the same key are different ones, and one call asks about both', async t => {
  const client = await server(t)
  if (!client) return
  const rules = ['', 'r1', 'r2'].map(rule => new SharedLimits([one('fixed', { limit: 3 })], 0, rule))
  const demands = rules.map(limits => need(limits, 'a', 2))
  t.equal(scriptCalls('group', demands, false, 0).length, 1)
  for (const passed of [2, 1, 0]) {
    const grants = await ask(client, demands)
    t.same(
      grants.map(grant => grant.passed),
      [passed, passed, passed],
    )
  }
})

t.test('an event costs none of several limits when one refuses it', async t => {
  const client = await server(t)
  if (!client) return
  const limits = new SharedLimits([one('fixed', { limit: 10 }), one('fixed', { limit: 100, unit: 'bytes' })], 0)
  const events = (...sizes: number[]) =>
    need(limits, 'a', sizes.length, {
      bytes: sizes.reduce((sum, size) => sum + size, 0),
      list: sizes.flatMap(size => [1, size]),
    })
  const passed = async (...sizes: number[]) => {
    const grants = await ask(client, [events(...sizes)])
    return grants[0]!.passed
  }
  t.same(await passed(60, 60, 30, 11, 10), Uint8Array.of(1, 0, 1, 0, 1))
  t.same(await passed(1, 1, 1), Uint8Array.of(0, 0, 0), 'all bytes are used')
  t.equal(await passed(0, 0, 0, 0, 0, 0, 0), 7, 'and three of ten events')
  t.same(await passed(0), Uint8Array.of(0))
})

t.test('the keys of a call are in one slot of a Redis Cluster, in at most 16 calls', t => {
  const limits = new SharedLimits([one('fixed', { limit: 3 })], 0)
  const demands = Array.from({ length: 1000 }, (_, i) => need(limits, `k${i}`, 1))
  const byTag = scriptCalls('group', demands, true, 0)
  t.ok(byTag.length > 8 && byTag.length <= 16)
  for (const { keys } of byTag) {
    const tags = new Set(keys.map(key => /\{(.*?)\}/.exec(key.toString())?.[1]))
    t.equal(tags.size, 1)
  }
  t.end()
})

t.test('a reply that the script cannot give is refused', async t => {
  const demands = [need(new SharedLimits([one('fixed')], 0), 'a', 2)]
  const [call] = scriptCalls('group', demands, false, 0)
  const usual = [1, 2, 0, 0, 1000, 0, 2, 1000, 0]
  const read = (reply: unknown) => readReply(call!, demands, reply, [])
  t.doesNotThrow(() => read(usual))
  for (const at of [0, 2, 3, 4, 5, 6, 7, 8])
    for (const wrong of [-1, Number.NaN, Infinity, '1', null, [1], ...(at === 5 ? [1, 0.5] : [])])
      t.throws(() => read(usual.with(at, wrong as number)), /an unexpected reply to the script/, `${at}: ${wrong}`)
  for (const wrong of ['1', '111', null]) t.throws(() => read(usual.with(1, wrong as unknown as number)))
  for (const wrong of [[], [1], 'OK', null, usual.slice(1)]) t.throws(() => read(wrong))
})

t.test('a key that another program wrote is counted and replaced, and other keys are not affected', async t => {
  const client = await server(t)
  if (!client) return
  const limits = new SharedLimits([one('fixed', { limit: 3 })], 0)
  const demands = ['list', 'text', 'own'].map(key => need(limits, key, 2))
  const [call] = scriptCalls('group', demands, false, Date.now())
  const evaluated = async () => {
    const grants: LeaseGrant[] = []
    const command = ['EVAL', SCRIPT, String(call!.keys.length), ...call!.keys, ...call!.args]
    const { foreign } = readReply(call!, demands, await client.sendCommand(command), grants)
    return { foreign, passed: grants.map(({ passed }) => passed) }
  }
  t.same(await evaluated(), { foreign: 0, passed: [2, 2, 2] })
  await client.sendCommand(['DEL', call!.keys[0]!])
  await client.sendCommand(['LPUSH', call!.keys[0]!, 'x'])
  await client.sendCommand(['SET', call!.keys[1]!, 'x'])
  t.same(await evaluated(), { foreign: 2, passed: [2, 2, 1] })
  t.same(await evaluated(), { foreign: 0, passed: [1, 1, 0] })
})

t.test('with gcra an event passes whatever it costs, and the server still replies', async t => {
  const client = await server(t)
  if (!client) return
  const cost = Number.MAX_SAFE_INTEGER
  const limits = new SharedLimits([one('gcra', { limit: 1, windowMs: 1000 * HOUR, burst: 0, unit: 'cost' })], 0)
  const demand = () => need(limits, 'a', 2, { cost: 2 * cost, list: [cost, 0, cost, 0] })
  t.same(
    (await ask(client, [demand()])).map(({ passed }) => [...(passed as Uint8Array)]),
    [[1, 0]],
  )
  t.same(
    (await ask(client, [demand()])).map(({ passed }) => [...(passed as Uint8Array)]),
    [[0, 0]],
  )
})

t.test('keys expire soon after their window, and a bucket takes at most 150 bytes', async t => {
  const client = await server(t)
  if (!client) return
  for (const mode of modes) {
    const limits = new SharedLimits([one(mode, { limit: 10, windowMs: 60_000, burst: 9 })], 0)
    await client.sendCommand(['FLUSHALL'])
    await ask(client, [need(limits, 'twenty letters of it', 10)])
    const [key] = (await client.sendCommand(['KEYS', '*'])) as string[]
    const ttl = Number(await client.sendCommand(['PTTL', key!]))
    t.ok(ttl > 0 && ttl <= 60_002, `${mode}: ${ttl} ms`)
    if (mode !== 'aligned') t.ok(ttl > 50_000, mode)
    const bytes = Number(await client.sendCommand(['MEMORY', 'USAGE', key!]))
    t.ok(bytes <= 150, `${mode}: ${bytes} bytes`)
  }
})
