import t from 'tap'
import type { ThrottleConfig } from '../../../../src/components/processors/throttle/options.js'
import { throttle } from '../../../../src/components/processors/throttle.js'
import { DISCARD, PASS } from '../../../../src/components/throttle/decisions.js'
import type { KeyedProcessor, SeeDecisions } from '../../../../src/components/throttle/keyed-processor.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import type { Config } from '../../../../src/engine/config/load.js'
import type { Links } from '../../../../src/engine/run/links.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { CountRing } from '../../../../src/page/server/watch/count-ring.js'
import { RecentKeyCounts } from '../../../../src/page/server/watch/key-counts.js'
import { PageWatch } from '../../../../src/page/server/watch/watch.js'
import { batchOf, fieldReaderOf } from '../../../support/batches.js'
import { collectGarbage, heldBytes } from '../../../support/heap.js'
import { longTest } from '../../../support/long-test.js'
import { ManualTime } from '../../../support/manual-time.js'
import { Seeded } from '../../../support/seeded.js'

/** Counts, and batches for them. `seed`: of the hashes, which decide which keys compete for a place. */
function counting(bytes: number, { time = new ManualTime(), busy = 1e6, seed = 1 } = {}) {
  const wanted = new WantedNames()
  const key = [fieldReaderOf('.app', wanted)]
  const decided = { before: 0 }
  const counts = new RecentKeyCounts({ bytes, busy, decided: () => decided.before, clock: time, seed })
  const see = (keys: readonly (string | undefined)[], decision = PASS) => {
    const batch = batchOf(
      keys.map(app => ({ app })),
      { wanted },
    )
    counts.see(batch, new Uint8Array(batch.length).fill(decision), key)
  }
  const sums = () => {
    const found = new Map<string | null | undefined, [offered: number, passed: number]>()
    counts.ring.read((_at, id, offered, passed) => {
      const name = counts.keyOf(id)?.key
      const [all, some] = found.get(name) ?? [0, 0]
      found.set(name, [all + offered, some + passed])
    })
    return found
  }
  return { counts, see, sums, time, key, wanted, decided }
}

t.test('what comes in is counted by key, for ten minutes', async t => {
  const { counts, see, sums, time } = counting(1e6)
  const long = 'ö'.repeat(400)
  see(['a', 'a', 'b', undefined, '__other__', long])
  see(['a'], DISCARD)
  const name = [...sums().keys()].at(-1)!
  t.match(name, /^ö{100}…[0-9a-f]{16}$/)
  t.same(
    [...sums()],
    [
      ['a', [3, 2]],
      ['b', [1, 1]],
      [null, [1, 1]],
      ['__other__', [1, 1]],
      [name, [1, 1]],
    ],
  )
  await time.advance(599_000)
  see(['a'])
  t.equal(sums().get('a')![0], 4)
  await time.advance(2000)
  t.same([...sums()], [['a', [1, 1]]])
  t.match(counts.counted(), { from: time.now() - 600_000, stepMs: 1, oneIn: 1, hasRest: false })
})

t.test('of more keys than are counted on their own, the busiest are', async t => {
  const { counts, see, sums, time } = counting(4 * 580 * 20)
  const random = new Seeded(4)
  t.equal(counts.counted().mostKeys, 20)
  for (let n = 0; n < 400; n++) {
    await time.advance(1000)
    see([
      ...Array.from({ length: 50 }, () => `rare-${random.below(100_000)}`),
      ...Array.from({ length: 30 }, () => `busy-${random.below(10)}`),
    ])
  }
  for (let n = 0; n < 10; n++) {
    const [offered] = sums().get(`busy-${n}`)!
    t.ok(offered > 200, `busy-${n}: ${offered}`)
  }
  t.ok(sums().get(undefined)![0] > 10_000, 'the others are counted together')
  t.match(counts.counted(), { hasRest: true, keys: 20 })
})

t.test('busy keys get counts of their own, whatever their hashes are', async t => {
  for (let seed = 0; seed < 50; seed++) {
    const { see, sums, time } = counting(4 * 580 * 4, { seed })
    const usual = ['a', 'b', 'c', 'd']
    see(usual)
    for (let n = 0; n < 5; n++) {
      await time.advance(61_000)
      see([...usual, ...Array.from({ length: 20 }, (_, n) => (n % 2 ? 'busy' : 'as busy'))])
    }
    const found = sums()
    if (!found.has('busy') || !found.has('as busy')) t.fail(`seed ${seed}: ${[...found.keys()]}`)
  }
})

t.test('a key that comes again after its place was lost is counted as another one', async t => {
  const { see, sums, time } = counting(4 * 580 * 2)
  see(['a', 'b'])
  for (let n = 0; n < 5; n++) {
    await time.advance(61_000)
    see(Array.from({ length: 100 }, (_, n) => (n % 2 ? 'c' : 'd')))
  }
  const all = [...sums().values()].reduce((sum, [offered]) => sum + offered, 0)
  t.equal(all, 502, 'nothing is counted twice or lost')
  t.ok(sums().get('c')![0] > 100 && sums().get('d')![0] > 100)
  t.notOk(sums().has('a'))
})

t.test('a second with more than 2,000 events of a backlog is very busy', async t => {
  for (const [events, isBacklog, pauseMs] of [
    [900, true, 0],
    [1100, true, 100],
    [1100, false, 0],
    [11_000, false, 50],
    [110_000, false, 100],
  ] as const) {
    const { counts, key, wanted, decided } = counting(1e6, { busy: 20_000 })
    const batch = batchOf(
      Array.from({ length: 77 }, () => ({ app: 'a' })),
      { wanted, isBacklog },
    )
    for (let n = 0; n < (2 * events) / batch.length; n++) {
      counts.see(batch, new Uint8Array(batch.length).fill(PASS), key)
      // As if it had skipped others.
      decided.before += n === 1 ? batch.length * 2 : batch.length
    }
    t.equal(counts.pauseMs, pauseMs, `2 x ${events}`)
    counts.see(batchOf(new Array(200).fill({ app: 'a' }), { wanted, isBacklog }), new Uint8Array(200).fill(PASS), key)
    t.equal(counts.pauseMs, 0, 'a large batch is never skipped')
  }
})

t.test('in a burst, large batches of one key count for this key alone', async t => {
  const { counts, sums, time, key, wanted, decided } = counting(1e6, { busy: 20_000 })
  const sent = { billing: 900, checkout: 8000, cart: 1500, search: 1201 }
  for (const [app, events] of Object.entries(sent)) {
    for (let left = events; left > 0; left -= 2500) {
      const length = Math.min(left, 2500)
      const batch = batchOf(new Array(length).fill({ app }), { wanted, isBacklog: true })
      const decisions = new Uint8Array(length).fill(DISCARD)
      decisions.fill(PASS, 0, length / 2)
      counts.see(batch, decisions, key)
      decided.before += length
      await time.advance(20)
    }
  }
  const found = sums()
  for (const [app, events] of Object.entries(sent)) {
    const [offered, passed] = found.get(app)!
    t.ok(Math.abs(offered - events) <= 20, `${app}: ${offered} of ${events}`)
    t.ok(Math.abs(passed - events / 2) <= 40, `${app}: ${passed} passed`)
  }
  const all = [...found.values()].reduce((sum, [n]) => sum + n, 0)
  t.ok(Math.abs(all - decided.before) <= 40, `${all} of ${decided.before}`)
})

// Only small batches are skipped in pauses.
for (const size of [2000, 190])
  t.test(`in a busy second some events of batches of ${size} are counted, which represent all`, async t => {
    const { counts, sums, time, key, wanted, decided } = counting(1e6, { busy: size * 10 })
    const random = new Seeded(7)
    const offered = new Map<string, number>()
    for (let n = 0; n < 100; n++) {
      await time.advance(50)
      // After a second, the buckets have other numbers.
      const owner = Math.floor(n / 20)
      const apps = Array.from({ length: size }, () => random.below(1 + random.below(20)))
      const batch = batchOf(
        apps.map(app => ({ app: `app-${app}` })),
        { wanted },
      )
      for (const app of apps) offered.set(`app-${app}`, (offered.get(`app-${app}`) ?? 0) + 1)
      const ids = Int32Array.from(apps, app => (app + owner) << 3)
      const decisions = Uint8Array.from(apps, app => (app % 2 ? DISCARD : PASS))
      if (counts.pauseMs === 0 || n % 4 === 3) counts.see(batch, decisions, key, { ids, owner })
      decided.before += batch.length
    }
    t.match(counts.counted(), { stepMs: 100, hasRest: false, keys: 20 })
    t.ok(counts.counted().oneIn > 2)
    const found = sums()
    const all = [...found.values()].reduce((sum, [n]) => sum + n, 0)
    // Each number of a key is rounded.
    t.ok(Math.abs(all - size * 100) <= 20 * 50 + size, `${all} of ${size * 100}`)
    for (const [app, events] of offered) {
      const [some, passed] = found.get(app)!
      t.ok(Math.abs(some - events) <= 0.05 * events + size, `${app}: ${some} of ${events}`)
      t.equal(passed, Number(app.slice(4)) % 2 ? 0 : some)
    }
    await time.advance(2000)
    decided.before += 900
    counts.see(batchOf([{ app: 'app-3' }], { wanted }), Uint8Array.of(PASS), key)
    t.equal(sums().get('app-3')![1], 1, 'later, each event represents itself')
  })

t.test('if ten minutes do not fit, steps become longer, and shorter again when they do', async t => {
  const { counts, see, sums, time } = counting(100_000)
  const { mostKeys } = counts.counted()
  const keys = Array.from({ length: mostKeys / 2 }, (_, n) => `k${n}`)
  let offered = 0
  for (let n = 0; n < 3000; n++) {
    await time.advance(40)
    see(keys)
    offered += keys.length
  }
  const { stepMs, from } = counts.counted()
  t.ok(stepMs > 1)
  if (from <= time.wall() - 3000 * 40)
    t.equal(
      [...sums().values()].reduce((sum, [n]) => sum + n, 0),
      offered,
    )
  t.ok(counts.used <= 100_000, `${counts.used} bytes`)
  for (let n = 0; n < 30; n++) {
    await time.advance(60_000)
    see(['k1'])
  }
  t.equal(counts.counted().stepMs, 1)
})

t.test('counting goes on when the clock is set', async t => {
  const time = new ManualTime()
  let offset = 0
  const clock = { now: () => time.now(), wall: () => time.wall() + offset }
  const { see, sums, counts } = counting(1e6, { time: clock as ManualTime })
  see(['a'])
  offset = 5000
  see(['a'])
  t.equal(sums().get('a')![0], 2)
  offset = -100_000
  see(['b'])
  t.same(
    [...sums()],
    [
      ['a', [2, 2]],
      ['b', [1, 1]],
    ],
  )
  t.equal(counts.counted().from + counts.wallOffsetMs, clock.wall())
})

t.test('rows keep their order and sums when they are merged, renamed and dropped', async t => {
  const random = new Seeded(9)
  const ring = new CountRing(500)
  const rows: [at: number, key: number, offered: number, passed: number][] = []
  let at = 1_700_000_000_123
  const read = () => {
    const found: typeof rows = []
    ring.read((at, key, offered, passed) => found.push([at, key, offered, passed]))
    return found
  }
  for (let n = 0; n < 2000; n++) {
    at += random.below(30)
    if (ring.isFull) {
      const count = 1 + random.below(200)
      ring.dropFirst(count)
      rows.splice(0, count)
      t.ok(ring.droppedUntil <= (rows[0]?.[0] ?? at) + 1)
    }
    const offered = 1 + random.below(0xffff)
    const row: (typeof rows)[number] = [at, random.below(6), offered, random.below(offered + 1)]
    ring.add(...row)
    rows.push(row)
  }
  t.same(read(), rows)
  const before = rows.filter(([time]) => time >= at - 3000)
  ring.dropBefore(at - 3000)
  t.same(read(), before)
  const { version } = ring
  ring.merge(100, 6)
  t.not(ring.version, version)
  const sums = (all: typeof rows) => {
    const found: Record<string, number[]> = {}
    for (const [at, key, offered, passed] of all) {
      const sum = (found[`${Math.floor(at / 100)} ${key}`] ??= [0, 0])
      sum[0]! += offered
      sum[1]! += passed
    }
    return found
  }
  t.same(sums(read()), sums(before))
  t.ok(read().every(([at], n, all) => at % 100 === 0 && (n === 0 || at >= all[n - 1]![0])))
})

longTest('50 throttles with 100,000 keys stay within the memory of the page', async t => {
  const memory = 64 * 1024 * 1024
  const time = new ManualTime()
  const wanted = new WantedNames()
  const key = [fieldReaderOf('.app', wanted)]
  const seen: SeeDecisions[] = []
  const processor = {
    watchKeys: () => {},
    decided: 0,
    watchDecisions: (see: SeeDecisions) => {
      seen.push(see)
      return () => {}
    },
  } as unknown as KeyedProcessor
  const options = throttle.options.parse({ limit: 5, window: '1s', key_field: '.app' }) as ThrottleConfig
  const ids = Array.from({ length: 50 }, (_, n) => `lim${n}`)
  const config = {
    dataDir: '/',
    sources: [],
    destinations: [],
    processors: ids.map(id => ({ id, kind: 'processor', options, definition: throttle })),
  } as unknown as Config
  const links = { processor: () => processor, tap: () => {}, observe: () => {} } as unknown as Links
  const decisions = new Uint8Array(2000)
  const random = new Seeded(2)
  const batches: EventBatch[] = []
  for (let n = 0; n < 50; n++) {
    const keys = Array.from({ length: 2000 }, (_, i) => ({
      app: `a-key-that-is-rather-long-${n * 2000 + i}-${'x'.repeat(random.below(60))}`,
    }))
    batches.push(batchOf(keys, { wanted }))
  }
  // These come all the time, so the counts of ten minutes do not fit.
  const usual = batchOf(
    Array.from({ length: 400 }, (_, n) => ({ app: `usual-${n}` })),
    { wanted },
  )
  const before = memoryHeld()
  const watch = new PageWatch(
    {
      follow: follow => {
        follow(links, config)
        return () => {}
      },
    },
    memory,
    time,
  )
  for (let n = 0; n < 200; n++) {
    await time.advance(1500)
    for (const see of seen) {
      see(usual, decisions, key)
      if (n < batches.length) see(batches[n]!, decisions, key)
    }
  }
  t.ok(watch.used <= memory / 2, `says ${watch.used}`)
  t.ok(watch.used > memory / 4, `says ${watch.used}: it is used`)
  const held = memoryHeld() - before
  t.ok(held < memory / 2, `holds ${held}`)
})

/** Bytes of what is held, also outside of the heap. */
function memoryHeld(): number {
  // What a collection frees outside of the heap is counted until the next one begins.
  collectGarbage()
  return heldBytes() + process.memoryUsage().arrayBuffers
}
