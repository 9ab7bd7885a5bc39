import t from 'tap'
import { ASK, LeaseLimiter } from '../../../../src/throttle/cluster/lease-limiter.js'
import type { SharedLimit } from '../../../../src/throttle/cluster/shared-limit.js'
import { DISCARD, FULL, PASS } from '../../../../src/throttle/decider.js'

const LIMIT: SharedLimit = { mode: 'fixed', limit: 100, windowMs: 1000, burst: 99, part: 0.1 }
const limiterOf = (limit: Partial<SharedLimit> = {}, maxKeys = 10) =>
  new LeaseLimiter({ ...LIMIT, ...limit }, maxKeys, 1)

/** Decides on an event of a batch of its own. */
function one(limiter: LeaseLimiter, now: number, key?: string) {
  limiter.advance(now)
  limiter.begin()
  if (key === undefined) return limiter.takeDefault(now)
  const bytes = Buffer.from(key)
  return limiter.take(new DataView(bytes.buffer, bytes.byteOffset, bytes.length), 0, bytes.length, now)
}

t.test('units taken ahead are spent without asking, and not after the end of their window', t => {
  const limiter = limiterOf()
  t.equal(one(limiter, 0), ASK)
  // Asked at 0, replied at 40 with 500 ms left on the server's clock: the window may have ended at 500 already.
  limiter.keep(limiter.demands[0]!, { granted: 4, waitMs: 500, ticket: 7 }, 0, 40)
  t.same([one(limiter, 40), one(limiter, 499)], [PASS, PASS])
  t.equal(one(limiter, 500), ASK)
  t.end()
})

t.test('units of gcra are spent within a tenth of the window', t => {
  const limiter = limiterOf({ mode: 'gcra' })
  one(limiter, 0)
  limiter.keep(limiter.demands[0]!, { granted: 4, waitMs: 0, ticket: 7 }, 0, 40)
  t.same([one(limiter, 99), one(limiter, 100)], [PASS, ASK])
  t.end()
})

t.test('a full bucket is not asked about again for a twentieth of the window, or until it ends', t => {
  const limiter = limiterOf()
  one(limiter, 0, 'a')
  limiter.keep(limiter.demands[0]!, { granted: 0, waitMs: 500, ticket: 7 }, 0, 10)
  t.same([one(limiter, 59, 'a'), one(limiter, 61, 'a'), one(limiter, 20, 'b')], [DISCARD, ASK, ASK])
  one(limiter, 100, 'a')
  limiter.keep(limiter.demands[0]!, { granted: 0, waitMs: 20, ticket: 7 }, 100, 110)
  t.same([one(limiter, 119, 'a'), one(limiter, 121, 'a')], [DISCARD, ASK])
  t.end()
})

t.test('exact: each event is asked about', t => {
  const limiter = limiterOf({ part: 0 })
  one(limiter, 0)
  t.equal(limiter.demands[0]!.ahead, 0)
  limiter.keep(limiter.demands[0]!, { granted: 0, waitMs: 500, ticket: 7 }, 0, 1)
  t.equal(one(limiter, 2), ASK)
  t.end()
})

t.test('a batch asks once about a bucket, and larger leases follow while they are spent', t => {
  const limiter = limiterOf()
  const asked: number[] = []
  let now = 0
  for (let i = 0; i < 40; i++) {
    if (one(limiter, ++now) !== ASK) continue
    const [demand] = limiter.demands
    asked.push(demand!.ahead)
    limiter.keep(demand!, { granted: demand!.need + demand!.ahead, waitMs: 900, ticket: 7 }, now, now)
  }
  t.same(asked, [1, 2, 4, 8, 10, 10], 'up to a tenth of the limit')
  limiter.begin()
  t.same([limiter.takeDefault(5000), limiter.takeDefault(5000)], [ASK, ASK])
  t.same(
    limiter.demands.map(({ need }) => need),
    [2],
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
    limiter.keep(limiter.demands[0]!, { granted: 6, waitMs, ticket: 7 }, 0, 0)
  }
  t.same(limiter.giveBack(200, 250), [], 'still in use')
  const [back, ...others] = limiter.giveBack(250, 250)
  t.match(back, { need: -5, ticket: 7 })
  t.equal(back!.key.toString(), 'a')
  t.same([others, limiter.giveBack(300, 0)], [[], []])
  t.equal(one(limiter, 301, 'a'), ASK)
  t.end()
})

t.test('a new bucket beyond max_keys is FULL', t => {
  const limiter = limiterOf({}, 1)
  t.same([one(limiter, 0, 'a'), one(limiter, 1, 'b'), one(limiter, 2)], [ASK, FULL, ASK])
  t.end()
})
