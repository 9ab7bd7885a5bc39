import t from 'tap'
import { DEFAULT_BUCKET, DISCARDED, EXCLUDED, KeyTally, PASSED, TimeTally } from '../../../src/check/simulate/tally.js'
import { WantedNames } from '../../../src/lib/formats/json-scan.js'
import { BucketKey } from '../../../src/throttle/bucket-key.js'
import { batchOf, readerOf } from '../../support/batches.js'
import { seeded } from '../../support/seeded.js'

t.test('counts over time in at most 240 bins, whatever the times', async t => {
  const random = seeded(5)
  for (const next of [
    (n: number) => n,
    (n: number) => 1_760_000_000_000 + n * 997.5,
    (n: number) => 1_760_000_000_000 - n * 86_400_000,
    () => (random() - 0.5) * 8e15,
    (n: number) => (n === 700 ? 0 : 1_760_000_000_000 + random() * 1e6),
    () => 5,
  ]) {
    const tally = new TimeTally()
    const times = Array.from({ length: 1000 }, (_, n) => next(n))
    for (const [n, time] of times.entries())
      tally.add(time, n % 10 === 0 ? DISCARDED : n % 10 === 1 ? EXCLUDED : PASSED)
    const bins = tally.bins()
    const sum = (outcome: number) => bins.reduce((sum, { counts }) => sum + counts[outcome]!, 0)
    t.same([sum(PASSED), sum(DISCARDED), sum(EXCLUDED)], [800, 100, 100])
    t.ok(bins.length <= 240, `${bins.length} bins of ${tally.binMs} ms`)
    t.same(tally.span, { from: Math.min(...times), to: Math.max(...times) })
    for (const { start, counts } of bins) {
      const inside = times.filter(time => time >= start && time < start + tally.binMs).length
      if (counts[0]! + counts[1]! + counts[2]! !== inside) t.fail(`the bin of ${start} has other events`)
    }
    const width = Math.max(...times) - Math.min(...times)
    t.ok(tally.binMs === 1 || width / tally.binMs > 118, 'no wider than needed')
  }
  t.same(new TimeTally().bins(), [])
  t.equal(new TimeTally().span, undefined)
})

t.test('counts by key, the busiest window of each, and the others when there are too many', async t => {
  const wanted = new WantedNames()
  const key = new BucketKey([readerOf('.k', wanted)])
  const keys = Array.from({ length: 250_010 }, (_, n) => `k${n}`)
  const batch = batchOf([...keys.map(k => ({ k })), {}, { k: 'x'.repeat(1000) }, { k: 'k3' }], { wanted })
  const tally = new KeyTally(1000, false)
  t.equal(tally.id(batch, 0, new BucketKey([])), DEFAULT_BUCKET)
  t.equal(tally.id(batch, keys.length, key), DEFAULT_BUCKET)
  tally.add(tally.id(batch, keys.length + 1, key), DISCARDED, 0)
  const third = tally.id(batch, keys.length + 2, key)
  for (let i = 0; i < keys.length; i++) tally.add(tally.id(batch, i, key), i === 250_005 ? EXCLUDED : PASSED, i / 1000)
  t.equal(tally.id(batch, 3, key), third)
  t.equal(tally.size, 250_000)
  t.ok(tally.overflowed)
  // 1 at 0.003, 3 from 5000, 2 from 6000 (1 excluded aside), 3 again from 9000.
  for (const time of [5000, 5500, 5999.9, 6000, 6100, 9000, 9001, 9002]) tally.add(third, DISCARDED, time)
  tally.add(third, EXCLUDED, 5001)
  const { keys: top, others } = tally.top(2)
  t.same(top, [
    { key: 'k3', events: 10, passed: 1, discarded: 8, excluded: 1, busiest: 3, busiestAt: 5000 },
    { key: `${'x'.repeat(100)}…`, events: 1, passed: 0, discarded: 1, excluded: 0, busiest: 1, busiestAt: 0 },
  ])
  t.same(others, { keys: 249_998, events: 250_009, passed: 250_008, discarded: 0, excluded: 1 })
  t.equal(tally.top(300_000).keys.length, 250_000)
  t.match(tally.top(300_000).others, { keys: 0, events: 11 })
})

t.test('aligned windows, and no others when all keys are shown', async t => {
  const tally = new KeyTally(1000, true)
  for (const time of [999, 1000, 1001, 1999, 2000]) tally.add(DEFAULT_BUCKET, PASSED, time)
  const { keys, others } = tally.top(20)
  t.same(keys, [{ key: undefined, events: 5, passed: 5, discarded: 0, excluded: 0, busiest: 3, busiestAt: 1000 }])
  t.equal(others, undefined)
  t.same(new KeyTally(1, false).top(5), { keys: [], others: undefined })
})
