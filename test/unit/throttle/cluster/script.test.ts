import { createClient } from '@redis/client'
import t, { type Test } from 'tap'
import { type Demand, type Grant, readReply, SCRIPT, ScriptCalls } from '../../../../src/throttle/cluster/script.js'
import type { SharedLimit } from '../../../../src/throttle/cluster/shared-limit.js'
import { testFolder } from '../../../support/folder.js'
import { startRedis } from '../../../support/redis-server.js'
import { ScriptModel } from '../../../support/script-model.js'
import { seeded } from '../../../support/seeded.js'

/** The script as the server executes it, at times of the test. */
const AT_TIME = SCRIPT.replace("redis.call('TIME')", '{ARGV[7], ARGV[8]}')

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

async function ask(client: Client, limit: SharedLimit, demands: readonly Demand[], micros?: number): Promise<Grant[]> {
  const grants: Grant[] = []
  for (const call of new ScriptCalls(limit, 'group').for(demands, false)) {
    const time = micros === undefined ? [] : [String(Math.floor(micros / 1e6)), String(micros % 1e6)]
    const text = micros === undefined ? SCRIPT : AT_TIME
    const reply = await client.sendCommand([
      'EVAL',
      text,
      String(call.keys.length),
      ...call.keys,
      ...call.args,
      ...time,
    ])
    readReply(call, reply, grants)
  }
  return grants
}

const need = (key: string, units: number, more: Partial<Demand> = {}): Demand => ({
  key: Buffer.from(key),
  need: units,
  ahead: 0,
  ticket: 0,
  ...more,
})

const HOUR = 3_600_000
const modes = ['fixed', 'aligned', 'gcra'] as const

t.test('the server does what the model says, for random demands at random times', async t => {
  const client = await server(t)
  if (!client) return
  for (const mode of modes) {
    const random = seeded(42)
    const limit: SharedLimit = { mode, limit: 37, windowMs: 10 * HOUR, burst: 11, part: 0.1 }
    const model = new ScriptModel(limit)
    await client.sendCommand(['FLUSHALL'])
    let now = Date.UTC(2026, 0, 1, 5) * 1000
    const tickets: [key: string, ticket: number][] = []
    for (let round = 0; round < 300; round++) {
      // The server's clock may be set back.
      now += Math.floor((random() - 0.05) * HOUR * 1000)
      const demands = Array.from({ length: 1 + Math.floor(random() * 4) }, (_, i) => {
        const [key, ticket] = tickets[Math.floor(random() * tickets.length)] ?? ['a', 0]
        if (random() < 0.2) return need(key, -1 - Math.floor(random() * 5), { ticket })
        return need(`k${i}`, Math.floor(random() * 12), { ahead: Math.floor(random() * 10) })
      })
      const expected = model.execute(demands, now)
      const got = await ask(client, limit, demands, now)
      for (const [i, grant] of got.entries()) tickets.push([demands[i]!.key.toString(), grant.ticket])
      const rounded = (grants: Grant[]) => grants.map(grant => ({ ...grant, waitMs: Math.round(grant.waitMs) }))
      if (JSON.stringify(rounded(got)) !== JSON.stringify(rounded(expected)))
        return t.same(got, expected, `${mode}, round ${round}: ${JSON.stringify(demands)}`)
    }
    t.pass(mode)
  }
})

t.test('more buckets than one call may have are asked about in several', async t => {
  const client = await server(t)
  if (!client) return
  const limit: SharedLimit = { mode: 'fixed', limit: 3, windowMs: HOUR, burst: 2, part: 0 }
  const demands = Array.from({ length: 1234 }, (_, i) => need(`k${i}`, i % 7))
  const grants = await ask(client, limit, demands)
  t.same(
    grants.map(({ granted }) => granted),
    demands.map(({ need }) => Math.min(3, need)),
  )
})

t.test('the keys of a call are in one slot of a Redis Cluster, in at most 16 calls', t => {
  const limit: SharedLimit = { mode: 'fixed', limit: 3, windowMs: HOUR, burst: 2, part: 0 }
  const calls = new ScriptCalls(limit, 'group').for(
    Array.from({ length: 1000 }, (_, i) => need(`k${i}`, 1)),
    true,
  )
  t.ok(calls.length > 8 && calls.length <= 16)
  for (const { keys } of calls) {
    const tags = new Set(keys.map(key => /\{(.*?)\}/.exec(key.toString())?.[1]))
    t.equal(tags.size, 1)
  }
  t.end()
})

t.test('keys expire soon after their window, and a bucket takes at most 150 bytes', async t => {
  const client = await server(t)
  if (!client) return
  for (const mode of modes) {
    const limit: SharedLimit = { mode, limit: 10, windowMs: 60_000, burst: 9, part: 0 }
    await client.sendCommand(['FLUSHALL'])
    await ask(client, limit, [need('twenty letters of it', 10)])
    const [key] = (await client.sendCommand(['KEYS', '*'])) as string[]
    const ttl = Number(await client.sendCommand(['PTTL', key!]))
    t.ok(ttl > 0 && ttl <= 60_002, `${mode}: ${ttl} ms`)
    if (mode !== 'aligned') t.ok(ttl > 50_000, mode)
    const bytes = Number(await client.sendCommand(['MEMORY', 'USAGE', key!]))
    t.ok(bytes <= 150, `${mode}: ${bytes} bytes`)
  }
})
