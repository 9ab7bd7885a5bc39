import t from 'tap'
import { hashedKey } from '../../../../../src/components/throttle/buckets/key-table.js'
import { ClusterDecider } from '../../../../../src/components/throttle/cluster/cluster-decider.js'
import { LeaseLimiter, type LeaseOptions } from '../../../../../src/components/throttle/cluster/lease-limiter.js'
import type { LeaseGrant } from '../../../../../src/components/throttle/cluster/script-calls.js'
import { ASK, DISCARD, FULL, PASS } from '../../../../../src/components/throttle/decisions.js'
import type { Limit } from '../../../../../src/components/throttle/limit.js'
import { KeyPattern } from '../../../../../src/components/throttle/rules/key-pattern.js'
import { parseFieldPath } from '../../../../../src/core/event/field-path.js'
import { FieldReader } from '../../../../../src/core/event/field-reader.js'
import { batchesOf, batchOf, originOf } from '../../../../support/batches.js'

const LIMIT: Limit = { mode: 'fixed', limit: 100, windowMs: 1000, unit: 'events' }
const limiterOf = (options: Partial<LeaseOptions> = {}) =>
  new LeaseLimiter({ limits: [LIMIT], part: 0.1, members: 1, maxKeys: 10, seed: 1, ...options })

/** Decides on an event of a batch of its own. */
function one(limiter: LeaseLimiter, now: number, key?: string, size?: number) {
  limiter.advance(now)
  limiter.asking.begin()
  if (size !== undefined) return limiter.take(undefined, now, 1, size)
  if (key === undefined) return limiter.take(undefined, now, 1, 0)
  const bytes = Buffer.from(key)
  return limiter.take(hashedKey(bytes, limiter.seed), now, 1, 0)
}

const grantOf = (passed: LeaseGrant['passed'], waitMs: number, ahead: Partial<LeaseGrant> = {}): LeaseGrant => ({
  passed,
  cost: 0,
  bytes: 0,
  waitMs,
  ticket: 7,
  nearest: 0,
  used: 50,
  endsMs: waitMs,
  ...ahead,
})

t.test('units taken ahead are spent without asking, and not after the end of their window', t => {
  const limiter = limiterOf()
  t.equal(one(limiter, 0), ASK)
  // Asked at 0, replied at 40 with 500 ms left on the server's clock: the window may have ended at 500 already.
  limiter.keep(limiter.asking.demands[0]!, grantOf(1, 500, { cost: 3 }), 0, 40)
  t.same([one(limiter, 40), one(limiter, 499)], [PASS, PASS])
  t.equal(one(limiter, 500), ASK)
  t.end()
})

t.test('a full bucket is not asked about again for a twentieth of the window, or until it ends', t => {
  const limiter = limiterOf()
  one(limiter, 0, 'a')
  limiter.keep(limiter.asking.demands[0]!, grantOf(0, 500), 0, 10)
  t.same([one(limiter, 59, 'a'), one(limiter, 61, 'a'), one(limiter, 20, 'b')], [DISCARD, ASK, ASK])
  one(limiter, 100, 'a')
  limiter.keep(limiter.asking.demands[0]!, grantOf(0, 20), 100, 110)
  t.same([one(limiter, 119, 'a'), one(limiter, 121, 'a')], [DISCARD, ASK])
  t.end()
})

t.test('what is refused is worth asking again about when the server said, or when leases may have come back', t => {
  for (const part of [0.1, 0]) {
    const limiter = limiterOf({ part, limits: [{ ...LIMIT, windowMs: 10_000 }] })
    t.equal(limiter.idleMs, 1000)
    t.equal(limiter.roomAt(undefined, 0, 1, 0), 100, 'nobody knows')
    one(limiter, 0)
    limiter.keep(limiter.asking.demands[0]!, grantOf(0, 1500), 0, 10)
    t.same(
      [20, 510, 511, 1509, 1510].map(now => limiter.roomAt(undefined, now, 1, 0)),
      [part === 0 ? 1510 : 1020, 1510, 1510, 1510, 1610],
    )
    const key = hashedKey(Buffer.from('a'), limiter.seed)
    one(limiter, 2000, 'a')
    limiter.keep(limiter.asking.demands[0]!, grantOf(0, 30), 2000, 2010)
    t.equal(limiter.roomAt(key, 2011, 1, 0), 2040)
    t.equal(limiter.roomAt(undefined, 2011, 1, 0), 2111)
  }
  t.end()
})

t.test('after an event that was too large, smaller ones are asked about', t => {
  const limiter = limiterOf({ limits: [{ ...LIMIT, limit: 1000, unit: 'bytes' }] })
  one(limiter, 0, undefined, 400)
  limiter.keep(limiter.asking.demands[0]!, grantOf(Uint8Array.of(0), 900), 0, 1)
  t.same([one(limiter, 2, undefined, 400), one(limiter, 3, undefined, 399)], [DISCARD, ASK])
  t.end()
})

t.test('bytes are leased, and what is left of a lease goes back with the next demand', t => {
  const limiter = limiterOf({ limits: [{ ...LIMIT, limit: 10_000, unit: 'bytes' }] })
  one(limiter, 0, undefined, 100)
  limiter.keep(limiter.asking.demands[0]!, grantOf(1, 900, { bytes: 500 }), 0, 1)
  t.equal(one(limiter, 2, undefined, 300), PASS)
  t.equal(one(limiter, 3, undefined, 201), ASK)
  t.match(limiter.asking.demands[0], { bytes: 201, list: [0, 201], backBytes: 200, backCost: 0, ticket: 7 })
  t.end()
})

t.test('exact: each event is asked about', t => {
  const limiter = limiterOf({ part: 0 })
  one(limiter, 0)
  limiter.keep(limiter.asking.demands[0]!, grantOf(0, 500), 0, 1)
  t.equal(one(limiter, 2), ASK)
  t.end()
})

t.test('a batch asks once about a bucket, and knows what was spent of the lease before', t => {
  const limiter = limiterOf()
  const spent: number[] = []
  let now = 0
  for (let i = 0; i < 40; i++) {
    if (one(limiter, ++now) !== ASK) continue
    const [demand] = limiter.asking.demands
    spent.push(demand!.spentCost)
    limiter.keep(demand!, grantOf(1, 900, { cost: Math.max(1, demand!.spentCost * 2) }), now, now)
  }
  t.same(spent, [0, 1, 2, 4, 8, 16])
  limiter.asking.begin()
  t.same([limiter.take(undefined, 5000, 1, 0), limiter.take(undefined, 5000, 1, 0)], [ASK, ASK])
  t.same(
    limiter.asking.demands.map(({ events, cost }) => [events, cost]),
    [[2, 2]],
  )
  t.end()
})

t.test('what was not used is given back once, with its ticket, and expired units are not', t => {
  const limiter = limiterOf()
  for (const [key, waitMs] of [
    ['a', 900],
    ['b', 100],
  ] as const) {
    one(limiter, 0, key)
    limiter.keep(limiter.asking.demands[0]!, grantOf(1, waitMs, { cost: 5 }), 0, 0)
  }
  t.equal(limiter.leased, 2)
  t.same(limiter.giveBack(200, 250), [], 'still in use')
  const [back, ...others] = limiter.giveBack(250, 250)
  t.match(back, { events: 0, cost: 0, backCost: 5, ticket: 7 })
  t.equal(back!.key.toString(), 'a')
  t.equal(limiter.leased, 0)
  t.same([others, limiter.giveBack(300, 0)], [[], []])
  t.equal(one(limiter, 301, 'a'), ASK)
  t.end()
})

t.test('a rule has buckets of its own, whose leases are given back when it is gone', t => {
  const limiter = limiterOf()
  const rule = { id: '1', sharedName: 'r', name: {} as never, when: undefined, key: undefined, costField: undefined }
  const ofRule = limiter.ofRule({ ...rule, limits: [{ ...LIMIT, limit: 5 }] })
  t.equal(one(ofRule, 0), ASK)
  const [demand] = limiter.asking.demands
  t.equal(demand!.limits.name, 'f:r')
  ofRule.keep(demand!, grantOf(1, 900, { cost: 4 }), 0, 0)
  t.same([one(ofRule, 1), one(limiter, 2)], [PASS, ASK])
  t.equal(limiter.leased, 1)
  limiter.keepRules([])
  t.match(limiter.giveBack(3, 1000), [{ backCost: 3, limits: { name: 'f:r' } }])
  t.end()
})

t.test('a reply about a rule that is gone adds no bucket', async t => {
  const limiter = limiterOf()
  const rule = { id: '1', sharedName: 'r', name: {} as never, when: () => true, key: undefined, costField: undefined }
  const ofRule = limiter.ofRule({ ...rule, limits: [LIMIT] })
  t.equal(one(ofRule, 0, 'a'), ASK)
  const [demand] = limiter.asking.demands
  t.equal(limiter.keys, 1)
  limiter.keepRules([])
  ofRule.keep(demand!, grantOf(1, 900, { cost: 4 }), 0, 0)
  t.equal(limiter.keys, 0)

  const clock = { now: () => 0, wall: () => 0 }
  const origin = originOf('json')
  const keyFields = [new FieldReader(parseFieldPath('.app'), origin.wanted)]
  for (const key of [undefined, new KeyPattern('a')]) {
    const own = { ...rule, when: key ? undefined : rule.when, key, limits: [{ ...LIMIT, limit: 2 }] }
    const shared = { keyFields, maxKeys: 10, seed: 1, limits: [LIMIT], part: 0.1, members: 1, rules: [own] }
    const ask = async () => {
      decider.setRules([])
      return undefined
    }
    const backend = { ask, untilReachable: async () => {} }
    const options = { ...shared, onMaxKeys: 'discard', onFailure: 'local_share' } as const
    const decider: ClusterDecider = new ClusterDecider(options, clock, backend)
    const [batch] = batchesOf('{"app":"a"}\n'.repeat(3), origin)
    const { counts } = await decider.decide(batch!, new AbortController().signal)
    t.same([counts[PASS], counts[DISCARD]], [2, 1], 'without the server, its limit holds')
    t.equal(decider.limiter.localOfAll.keys, 0)
  }
})

t.test('the level of a bucket is what the server said last, until its window ends', t => {
  const limiter = limiterOf({ limits: [LIMIT, { ...LIMIT, limit: 1000, windowMs: 60_000 }] })
  one(limiter, 0)
  limiter.keep(limiter.asking.demands[0]!, grantOf(1, 900, { nearest: 1, endsMs: 9000 }), 0, 0)
  const level = (now: number) => limiter.level(undefined, now, 1, 1)
  t.match(level(10), { limit: { limit: 1000 }, used: 50, until: 9000 })
  t.match(level(9000), { used: 0 })
  limiter.local.take(undefined, 9001, 1, 0)
  t.match(level(9001), { limit: { mode: 'fixed' }, used: 1 }, 'what passed without the server')
  t.match(level(80_000), { used: 0 })
  t.end()
})

t.test('a new bucket beyond max_keys is FULL', t => {
  const limiter = limiterOf({ maxKeys: 1 })
  t.same([one(limiter, 0, 'a'), one(limiter, 1, 'b'), one(limiter, 2)], [ASK, FULL, ASK])
  t.end()
})

t.test('events that wait for the server are given back at a stop, not discarded', async t => {
  const stopping = new AbortController()
  const clock = { now: () => 0, wall: () => 0 }
  const backend = { ask: async () => undefined, untilReachable: async () => stopping.abort() }
  const options = { keyFields: [], maxKeys: 10, seed: 1, limits: [LIMIT], part: 0.1, members: 1 }
  const decide = (onFailure: 'wait' | 'discard') => {
    const decider = new ClusterDecider({ ...options, onMaxKeys: 'pass', onFailure }, clock, backend)
    return decider.decide(batchOf([{ n: 1 }]), stopping.signal)
  }
  await t.rejects(Promise.resolve(decide('wait')), { name: 'AbortError' })
  t.match(await decide('discard'), { alone: 1 }, 'one that does not wait decides all the same')
})

t.test('on_max_keys holds without the server, whose share has fewer free buckets than the leases', async t => {
  let now = 0
  const clock = { now: () => now, wall: () => now }
  const backend = { ask: async () => undefined, untilReachable: async () => {} }
  const limits: Limit[] = [LIMIT, { ...LIMIT, limit: 2, windowMs: 3_600_000 }]
  const origin = originOf('json')
  const keyFields = [new FieldReader(parseFieldPath('.app'), origin.wanted)]
  const options = { keyFields, maxKeys: 1, seed: 1, limits, part: 0.1, members: 1 }
  const passedOf = async (onMaxKeys: 'pass' | 'discard' | 'default_bucket') => {
    now = 0
    const decider = new ClusterDecider({ ...options, onMaxKeys, onFailure: 'local_share' }, clock, backend)
    const decide = async (...apps: string[]) => {
      const [batch] = batchesOf(apps.map(app => `{"app":"${app}"}\n`).join(''), origin)
      return (await decider.decide(batch!, new AbortController().signal)).counts[PASS]
    }
    t.equal(await decide('a'), 1)
    // The lease of `a` is idle then, its bucket with an hour's window is not.
    now = 10_000
    return decide('b', 'b', 'b')
  }
  t.equal(await passedOf('pass'), 3)
  t.equal(await passedOf('discard'), 0)
  t.equal(await passedOf('default_bucket'), 2)
})
