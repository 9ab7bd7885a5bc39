import t from 'tap'
import { EventKey } from '../../../../src/components/throttle/buckets/event-key.js'
import { BusiestKeys } from '../../../../src/components/throttle/counts/busiest-keys.js'
import { DiscardHistory } from '../../../../src/components/throttle/counts/discard-history.js'
import { DiscardTally } from '../../../../src/components/throttle/counts/discard-tally.js'
import { HeaviestKeys } from '../../../../src/components/throttle/counts/heaviest-keys.js'
import { DISCARD, EXCLUDED, NO_BACKEND, PASS } from '../../../../src/components/throttle/decisions.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { batchOf, fieldReaderOf } from '../../../support/batches.js'
import { heldBytes } from '../../../support/heap.js'
import { seeded } from '../../../support/seeded.js'

function counting(path = '.app') {
  const clock = { at: 0, now: () => clock.at, wall: () => clock.at }
  const wanted = new WantedNames()
  const field = fieldReaderOf(path, wanted)
  const keys = new BusiestKeys([field], clock)
  const see = (lines: object[], decisions: number[]) => keys.see(batchOf(lines, { wanted }), Uint8Array.from(decisions))
  return { clock, keys, see }
}

t.test('what passed and what did not, by key', async t => {
  const { keys, see } = counting()
  see([{ app: 'a' }, { app: 'b' }, { app: 'a' }, {}], [PASS, PASS, DISCARD, PASS])
  see([{ app: 'a' }, { app: 7 }, { app: 'b' }, { app: null }, { app: '' }], [DISCARD, PASS, EXCLUDED, PASS, DISCARD])
  t.same(keys.busiest(10), {
    exact: true,
    keys: [
      { key: 'a', passed: 1, discarded: 2 },
      { key: null, passed: 2, discarded: 1 },
      { key: 'b', passed: 1, discarded: 0 },
      { key: '7', passed: 1, discarded: 0 },
    ],
  })
  t.equal(keys.busiest(2).keys.length, 2)

  const all = new BusiestKeys([], { now: () => 0, wall: () => 0 })
  all.see(batchOf(['x', 'y']), Uint8Array.from([PASS, DISCARD]))
  t.same(all.busiest(1).keys, [{ key: null, passed: 1, discarded: 1 }])
})

t.test('long keys that begin alike are not the same', async t => {
  const { keys, see } = counting()
  const long = 'k'.repeat(10_000)
  see([{ app: `${long}1` }, { app: `${long}2` }, { app: `${long}1` }, { app: 'k' }], [PASS, PASS, NO_BACKEND, PASS])
  const { keys: found } = keys.busiest(9)
  t.match(found, [
    { key: /^k{200}…[0-9a-f]{16}$/, passed: 1, discarded: 1 },
    { key: /^k{200}…[0-9a-f]{16}$/, passed: 1, discarded: 0 },
    { key: 'k', passed: 1 },
  ])
  t.same(
    found.map(({ key }) => keys.isName(key)),
    [true, true, false],
  )
})

t.test('of very many a sample stands for the rest, and its memory is bounded', async t => {
  const { clock, keys, see } = counting()
  const random = seeded(7)
  const events = 1000
  let busy = 0
  // Keys that come in turns beside chance: a step that is always the same would see some of them only.
  for (let n = 0; n < 200; n++) {
    clock.at = n * 4
    const lines = Array.from({ length: events }, (_, i) => ({
      app: i % 2 === 0 ? (i % 4 === 0 ? 'busy' : 'other') : `k${Math.floor(random() * 100_000)}`,
    }))
    busy += events / 4
    see(
      lines,
      lines.map((_, i) => (i % 8 === 0 ? PASS : DISCARD)),
    )
  }
  const { exact, keys: found } = keys.busiest(3)
  t.notOk(exact)
  t.same(
    found
      .slice(0, 2)
      .map(({ key }) => key)
      .sort(),
    ['busy', 'other'],
  )
  for (const { key, passed, discarded } of found.slice(0, 2)) {
    const off = Math.abs((passed + discarded) / busy - 1)
    t.ok(off < 0.15, `${key}: ${passed + discarded} of ${busy}`)
    if (key === 'busy') t.ok(Math.abs(passed / (passed + discarded) - 0.5) < 0.1, 'half of it passed')
    else t.equal(passed, 0)
  }
  t.ok(found[2]!.passed + found[2]!.discarded < busy / 100)
})

t.test('of keys that are long only the beginning is in memory', async t => {
  const { keys, see } = counting()
  const before = heldBytes()
  for (let i = 0; i < 200; i++) see([{ app: `${i} ${'x'.repeat(100_000)}` }], [PASS])
  t.ok(heldBytes() - before < 5_000_000)
  t.equal(keys.busiest(300).keys.length, 200)
})

t.test('what is known of a key holds, however many there are and in whatever order they come', async t => {
  for (let seed = 1; seed <= 200; seed++) {
    const random = seeded(seed)
    const capacity = 2 + Math.floor(random() * 20)
    const heaviest = new HeaviestKeys(capacity)
    const real = new Map<string, number>()
    for (let round = 0; round < 30; round++) {
      for (let n = Math.floor(random() * 40); n > 0; n--) {
        const key = `k${Math.floor(random() ** 3 * 100)}`
        const events = 1 + Math.floor(random() * 50)
        heaviest.add(key, events)
        real.set(key, (real.get(key) ?? 0) + events)
      }
      heaviest.trim()
      const followed = new Map([...heaviest.keys].map(key => [key.name, key]))
      const wrong = [...real].filter(([name, events]) => {
        const key = followed.get(name)
        return key ? key.counted > events || key.counted + key.missed < events : events > heaviest.floor
      })
      if (wrong.length > 0 || followed.size > capacity) t.fail(`seed ${seed}`, { wrong, size: followed.size })
    }
  }
})

t.test('keys that are kept are followed however light they are', async t => {
  const heaviest = new HeaviestKeys(2)
  heaviest.add('kept', 1)
  for (const key of heaviest.keys) key.isKept = true
  for (const name of ['a', 'b', 'c']) heaviest.add(name, 10)
  heaviest.trim()
  t.same([...heaviest.keys].map(({ name }) => name).sort(), ['a', 'kept'])
  t.equal(heaviest.floor, 10)
})

const MINUTE = 60_000

t.test('the discards of an hour are those of its sixty minutes, by bucket', async t => {
  const history = new DiscardHistory(0)
  history.add('a', 5, 0)
  history.add('a', 2, 30 * MINUTE)
  history.add(null, 1, 30 * MINUTE)
  t.equal(history.lastHour('a', 59.9 * MINUTE), 7)
  t.equal(history.lastHour('a', 60 * MINUTE), 2)
  t.equal(history.lastHour(null, 60 * MINUTE), 1)
  history.add('a', 1, 61 * MINUTE)
  t.equal(history.lastHour('a', 89.9 * MINUTE), 3)
  t.equal(history.lastHour('a', 90 * MINUTE), 1)
  t.equal(history.lastHour('a', 1000 * MINUTE), 0)
  t.equal(history.lastHour('b', 0), 0)
})

t.test(
  'of many buckets those with most discards are kept, and that others were forgotten is said for an hour',
  async t => {
    const history = new DiscardHistory(0)
    for (let n = 0; n < 512; n++) history.add(`k${n}`, n + 1, 0)
    t.ok(history.isExact(0))
    history.add('new', 1, MINUTE)
    t.equal(history.lastHour('k511', MINUTE), 512)
    t.equal(history.lastHour('k255', MINUTE), 0)
    t.equal(history.lastHour('k256', MINUTE), 257)
    t.notOk(history.isExact(MINUTE))
    t.ok(history.isExact(62 * MINUTE))
  },
)

t.test('events of buckets that are known by their ids are counted, however large the ids are', t => {
  const wanted = new WantedNames()
  const key = new EventKey([fieldReaderOf('.k', wanted)], 1)
  const many = 4000
  const batch = batchOf(
    Array.from({ length: many }, (_, k) => ({ k })),
    { wanted },
  )
  const tally = new DiscardTally(false)
  // As with rules: the number of a bucket, and that of its group.
  const idOf = (i: number) => (i * 25) << 3
  const { arrayBuffers } = process.memoryUsage()
  let known = 0
  for (let round = 0; round < 3; round++) {
    for (let i = 0; i < many; i++) {
      if (tally.addKnown(7, idOf(i), batch, i, round)) known++
      else {
        key.load(batch, i)
        tally.add(key, batch, i, round)
        tally.know(7, idOf(i))
      }
    }
  }
  t.ok(process.memoryUsage().arrayBuffers - arrayBuffers < 1_000_000)
  t.ok(known > many, `${known} of ${many * 3} were not looked up by their bytes`)
  t.notOk(tally.addKnown(8, idOf(0), batch, 0, 3), 'an id of other buckets')
  t.notOk(tally.addKnown(7, idOf(many), batch, 0, 3))
  t.notOk(tally.addKnown(7, -1, batch, 0, 3))
  const counts: unknown[] = []
  tally.drain(({ bucket, events, first, last }) => counts.push([bucket, events, first, last]))
  t.same(
    counts,
    Array.from({ length: many }, (_, k) => [`${k}`, 3, 0, 2]),
  )
  t.notOk(tally.addKnown(7, idOf(0), batch, 0, 3), 'its row is gone')
  t.end()
})
