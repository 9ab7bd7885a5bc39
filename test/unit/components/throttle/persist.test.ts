import t from 'tap'
import { deciderOptions } from '../../../../src/components/processors/throttle/decider-options.js'
import { throttle } from '../../../../src/components/processors/throttle.js'
import { createDecider } from '../../../../src/components/throttle/create-decider.js'
import type { EventTiming } from '../../../../src/components/throttle/event/timing.js'
import { HEAD_BYTES } from '../../../../src/components/throttle/persist/blocks.js'
import { BucketsReader, SavedBuckets } from '../../../../src/components/throttle/persist/saved-buckets.js'
import type { parseFieldPath } from '../../../../src/core/event/field-path.js'
import { FieldReader } from '../../../../src/core/event/field-reader.js'
import { batchesOf, originOf } from '../../../support/batches.js'
import { Seeded } from '../../../support/seeded.js'

const START = 1_700_000_000_000

type Config = Record<string, unknown>

/** A throttle whose monotonic clock shows `offset` less than its wall clock, both of which `time` moves. */
function throttleAt(config: Config, offset: number, time: { wall: number }) {
  const origin = originOf('json')
  const origins = new Map([['', origin]])
  const field = (path: ReturnType<typeof parseFieldPath>) => new FieldReader(path, origin.wanted)
  const options = { ...deciderOptions(throttle.options.parse(config), { field }), persists: true }
  const clock = { now: () => time.wall - offset, wall: () => time.wall }
  const decider = createDecider(options, clock)
  const limiter = decider.limiter
  const inEventTime = config.time_field !== undefined
  const now = () => (inEventTime ? Number.NEGATIVE_INFINITY : clock.now())
  return {
    saved: new SavedBuckets(limiter, now),
    reader: new BucketsReader(limiter, options.rules ?? []),
    limiter,
    /** Number of windows in memory, without the newest of each bucket, in event time. */
    kept: () => decider.inEventTime?.room.rows,
    clock,
    now,
    decide(events: readonly object[], source = ''): string {
      if (!origins.has(source)) origins.set(source, { ...origin, source })
      const [batch] = batchesOf(events.map(event => `${JSON.stringify(event)}\n`).join(''), origins.get(source)!)
      Object.assign(batch!, { receivedAt: time.wall })
      return decider.decide(batch!).decisions.slice(0, events.length).join('')
    },
    /** Reads blocks that the throttle with another clock wrote. */
    read(blocks: readonly Buffer[], from: { now(): number }) {
      const shift = inEventTime ? 0 : clock.now() - from.now()
      for (const block of blocks) this.reader.read(block, now(), shift)
    },
  }
}

const blocksOf = (saved: SavedBuckets, all: boolean) =>
  [...saved.blocks(all)].map(block => Buffer.from(block.subarray(HEAD_BYTES)))

const quota = { limit: 9, per: 'hour', time_zone: 'Asia/Kolkata' }
const CONFIGS: readonly Config[] = [
  ...['fixed', 'aligned', 'sliding', 'gcra'].flatMap(window_mode => [
    { limit: 5, window: '1s', window_mode },
    { limit: 40, window: '2s', window_mode, cost: '.c', also: [{ limit_bytes: 200, window: '700ms' }] },
  ]),
  {
    limit: 3,
    window: '1s',
    window_mode: 'gcra',
    burst: 0,
    also: [{ limit: 50, window: '30s', window_mode: 'sliding' }],
  },
  { quota },
  { limit: 4, window: '1s', quota },
  {
    limit: 4,
    window: '1s',
    limits: [
      { when: "if (.c equal '3')", limit: 2 },
      { key: 'k1*', limit: 7, window: '5s', window_mode: 'aligned' },
      { key: 'k2', limit: 'unlimited' },
    ],
  },
  {
    limit: 4,
    window: '1s',
    limits: [
      { key: 'k1', limit: 2 },
      { key: 'k2', limit: 7 },
      { key: 'k3', limit: 3, window_mode: 'aligned' },
      { key: 'k4', limit: 3, also: [{ limit: 9, window: '5s' }] },
    ],
  },
]
const keyed = (config: Config, inEventTime: boolean): Config => ({
  key_field: '.k',
  ...config,
  ...(inEventTime && { time_field: '.t', allowed_lateness: '1h' }),
})

for (const inEventTime of [false, true]) {
  t.test(`buckets ${inEventTime ? 'in event time' : 'on the clock'} go on as if nothing had happened`, async t => {
    for (const [n, config] of CONFIGS.entries()) {
      if (inEventTime && ['sliding', 'gcra'].includes(String(config.window_mode))) continue
      const random = new Seeded(n + 1)
      const time = { wall: START }
      const events = () =>
        Array.from({ length: 1 + random.below(40) }, () => ({
          k: random.chance(0.1) ? undefined : `k${random.below(30)}`,
          c: random.below(7) / 2,
          t: time.wall - random.below(5) * 600,
        }))
      let before = throttleAt(keyed(config, inEventTime), START - 1000, time)
      // Each block counts from when it was written: those of the first save have to be there too.
      let blocks: Buffer[] = []
      const decided: string[] = []
      const alone = throttleAt(keyed(config, inEventTime), START - 1000, time)
      for (let round = 0; round < 60; round++) {
        time.wall += random.below(400)
        const some = events()
        const decisions = before.decide(some)
        decided.push(decisions)
        t.equal(decisions, alone.decide(some), `${JSON.stringify(config)}, round ${round}`)
        if (round % 3 === 0) blocks.push(...blocksOf(before.saved, round % 15 === 0))
        if (round % 20 !== 19) continue
        blocks.push(...blocksOf(before.saved, false))
        // One that stands still while another one takes its place.
        const after = throttleAt(keyed(config, inEventTime), START - 777_000 * round, time)
        after.read(blocks, before.clock)
        t.equal(after.kept(), before.kept())
        before = after
        blocks = blocksOf(before.saved, true)
      }
      t.match(decided.join(''), /0/)
      t.match(decided.join(''), /1/, 'some were discarded')
    }
  })
}

for (const window_mode of ['fixed', 'aligned']) {
  t.test(`a source that is behind goes on in its windows, though others go on first (${window_mode})`, async t => {
    const config = { limit: 2, window: '1s', window_mode, time_field: '.t', allowed_lateness: '0ms' }
    const time = { wall: START }
    const behind = START - 60_000
    let run = throttleAt(config, 0, time)
    for (const source of ['live', 'other']) t.equal(run.decide([{ t: START - 5000 }], source), '0')
    t.equal(run.decide([{ t: behind }, { t: behind }, { t: behind }], 'behind'), '001')
    let blocks = blocksOf(run.saved, true)
    for (let restarts = 1; restarts < 4; restarts++) {
      time.wall += 5000
      const next = throttleAt(config, 0, time)
      next.read(blocks, run.clock)
      run = next
      t.equal(run.decide([{ t: time.wall }], 'live'), '0')
      // Another restart comes before the source that is behind has sent anything.
      blocks = blocksOf(run.saved, true)
    }
    for (const source of ['other', 'live']) t.equal(run.decide([{ t: (time.wall += 5000) }], source), '0')
    t.equal(run.decide([{ t: behind }, { t: behind + 2000 }], 'behind'), '10')
  })
}

t.test('the sources of an earlier run are waited for until as many have begun, and for a minute at most', async t => {
  const config = { limit: 2, window: '1s', time_field: '.t', allowed_lateness: '0ms' }
  const time = { wall: START }
  const before = throttleAt(config, 0, time)
  for (const [n, source] of ['a', 'b', 'c'].entries()) before.decide([{ t: START - n * 10_000 }], source)
  const blocks = blocksOf(before.saved, true)
  const next = () => {
    const run = throttleAt(config, 0, time)
    run.read(blocks, before.clock)
    const { progress } = run.limiter.timing as EventTiming
    t.equal(progress.oldest, START - 20_000)
    return { ...run, progress }
  }
  const begun = next()
  begun.decide([{ t: START + 1 }], 'a')
  begun.decide([{ t: START + 2 }], 'b')
  begun.decide([{ t: START + 3 }], 'a')
  t.equal(begun.progress.oldest, START - 20_000)
  begun.decide([{ t: START + 4 }], 'c')
  begun.decide([{ t: START + 5 }], 'c')
  t.equal(begun.progress.oldest, START + 2)
  const silent = next()
  for (let seconds = 0; seconds < 60; seconds++, time.wall += 1000) silent.decide([{ t: time.wall }], 'a')
  t.equal(silent.progress.oldest, START - 20_000)
  silent.decide([{ t: time.wall }], 'a')
  t.equal(silent.progress.oldest, time.wall)
})

t.test('what has not changed is not written again', async t => {
  const { decide, saved } = throttleAt(keyed({ limit: 3, window: '1m' }, false), 0, { wall: START })
  t.same(blocksOf(saved, false).length, 1, 'the default bucket, once')
  decide(Array.from({ length: 1000 }, (_, n) => ({ k: `key ${n}` })))
  const [all] = blocksOf(saved, false)
  t.ok(all!.length > 1000 * 20)
  t.same(blocksOf(saved, false), [])
  decide([{ k: 'key 7' }, { k: 'key 8' }, {}])
  const [changed] = blocksOf(saved, false)
  t.ok(changed!.length < 150, String(changed!.length))
  t.equal(blocksOf(saved, true)[0]!.length, all!.length + 4 + 16, 'with the default bucket')
})

t.test('a rule that returns after all buckets were written has its default bucket written again', async t => {
  const { limiter, saved, clock } = throttleAt({ limit: 3, window: '1m' }, 0, { wall: START })
  const limits = [{ mode: 'fixed', limit: 3, windowMs: 60_000, unit: 'events' }] as const
  const rule = {
    id: 'r',
    sharedName: 'r',
    name: {} as never,
    when: undefined,
    key: undefined,
    limits,
    costField: undefined,
  }
  blocksOf(saved, false)
  const afterUse = () => {
    limiter.ofRule(rule).take(undefined, clock.now(), 1, 0)
    return blocksOf(saved, false)
  }
  const blocks = afterUse()
  t.equal(blocks.length, 1)
  limiter.keepRules([])
  blocksOf(saved, true)
  t.same(afterUse(), blocks)
})

t.test('an expired window is neither written nor read', async t => {
  const time = { wall: START }
  const config = keyed({ limit: 1, window: '10s' }, false)
  const { decide, saved, clock } = throttleAt(config, 0, time)
  decide([{ k: 'old' }])
  const blocks = blocksOf(saved, false)
  time.wall += 6000
  decide([{ k: 'new' }])
  blocks.push(...blocksOf(saved, false))
  time.wall += 5000
  t.notMatch(blocksOf(saved, true).join(), /old/)
  const after = throttleAt(config, 5, time)
  after.read(blocks, clock)
  t.equal(after.limiter.keys, 1)
  t.equal(after.decide([{ k: 'old' }, { k: 'new' }]), '01')
})

t.test('a period ahead of the clock counts as the present one', async t => {
  const time = { wall: START }
  const config = { limit: 2, window: '1m', window_mode: 'aligned' }
  const before = throttleAt(config, 0, time)
  before.decide([{}, {}])
  const blocks = blocksOf(before.saved, true)
  time.wall -= 3_600_000
  const after = throttleAt(config, 0, time)
  after.read(blocks, { now: () => time.wall })
  t.equal(after.decide([{}]), '1')
  time.wall += 60_000
  t.equal(after.decide([{}, {}, {}]), '001')
})

t.test('only so many buckets are read as there is room for', async t => {
  const config = keyed({ limit: 1, window: '1h' }, false)
  const before = throttleAt(config, 0, { wall: START })
  before.decide(Array.from({ length: 30 }, (_, n) => ({ k: n })))
  const after = throttleAt({ ...config, max_keys: 10 }, 0, { wall: START })
  after.read(blocksOf(before.saved, true), before.clock)
  t.equal(after.limiter.keys, 10)
  t.equal(after.decide([{ k: 3 }]), '1')
})

t.test('in event time, buckets that were dropped leave their room to those that took it', async t => {
  const limits = ['r*', 's*', 't*'].map(key => ({ key, limit: 1, window: '1s' }))
  const config = { ...keyed({ limit: 1, window: '1s', limits }, true), max_keys: 4, allowed_lateness: '0ms' }
  const time = { wall: START }
  const before = throttleAt(config, 0, time)
  const blocks: Buffer[] = []
  const decide = (...keys: string[]) => {
    const decisions = before.decide(keys.map(k => ({ k, t: time.wall })))
    blocks.push(...blocksOf(before.saved, false))
    return decisions
  }
  t.equal(decide('r', 's', 't1', 't2'), '0000')
  time.wall += 60_000
  t.equal(decide('r', 's'), '00')
  t.match(decide('a', 'a', 'a', 'a', 'b'), /010$/, 'they take the room of the third rule')
  const after = throttleAt(config, 5, time)
  after.read(blocks, before.clock)
  t.equal(after.reader.withoutRoom, 0)
  t.equal(after.decide(['r', 's', 'a', 'b'].map(k => ({ k, t: time.wall }))), '1111')
})

t.test('a bucket that is behind the others of its source goes on', async t => {
  const config = { ...keyed({ limit: 1, window: '1s' }, true), allowed_lateness: '0ms' }
  const time = { wall: START }
  const before = throttleAt(config, 0, time)
  const behind = { k: 'behind', t: START - 3_600_000 }
  t.equal(before.decide([{ k: 'a', t: START }, behind, behind]), '001')
  const after = throttleAt(config, 5, time)
  after.read(blocksOf(before.saved, true), before.clock)
  t.equal(after.decide([{ k: 'a', t: START }, behind]), '11')
})

t.test('buckets of rules that are gone are left out, and those after them are read', async t => {
  const rules = (limit: number) => ({
    ...keyed({ limit: 1, window: '1h' }, false),
    limits: [
      { key: 'a*', limit },
      { key: 'b*', limit: 2 },
    ],
  })
  const before = throttleAt(rules(1), 0, { wall: START })
  before.decide(['a', 'b', 'b', 'c'].map(k => ({ k })))
  const after = throttleAt(rules(5), 0, { wall: START })
  after.read(blocksOf(before.saved, true), before.clock)
  t.equal(after.reader.unknown.size, 1)
  t.equal(after.decide(['a', 'b', 'c'].map(k => ({ k }))), '011')
})

t.test('in event time, rules for one key go on with their earlier windows and their default buckets', async t => {
  const limitsOf = (c: number) => [
    { key: 'a', limit: 2 },
    { key: 'b', limit: 3 },
    { key: 'c', limit: c },
  ]
  const bound = { max_keys: 2, on_max_keys: 'default_bucket' }
  const configOf = (c: number) => keyed({ limit: 1, window: '1s', limits: limitsOf(c), ...bound }, true)
  const time = { wall: START }
  const before = throttleAt(configOf(1), 0, time)
  const [early, late] = [START - 60_000, START - 5000]
  const events = (...given: [k: string, t: number][]) => given.map(([k, t]) => ({ k, t }))
  t.equal(
    before.decide(events(['a', early], ['b', early], ['a', late], ['b', late], ['c', late], ['c', early])),
    '000000',
  )
  t.equal(before.decide(events(['a', early], ['a', early], ['b', early], ['c', late])), '0101')
  const blocks = blocksOf(before.saved, true)
  const after = throttleAt(configOf(1), 5, time)
  after.read(blocks, before.clock)
  t.equal(after.reader.withoutRoom, 0)
  const next = events(['a', early], ['b', early], ['b', early], ['c', early], ['a', late], ['a', late], ['b', late])
  t.equal(after.decide([...next, ...events(['b', late], ['b', late], ['c', late])]), '1011010011')
  const changed = throttleAt(configOf(4), 5, time)
  changed.read(blocks, before.clock)
  t.equal(changed.reader.unknown.size, 1)
  const others = events(['a', early], ['b', early], ['b', early], ['c', late], ['c', late], ['c', late], ['c', late])
  t.equal(changed.decide([...others, ...events(['c', late], ['a', late], ['a', late])]), '1010000101')
})

t.test('buckets that others replace while they are written are all written', async t => {
  const time = { wall: START }
  const config = { ...keyed({ limit: 1, window: '1s' }, false), max_keys: 200_000 }
  const { decide, saved } = throttleAt(config, 0, time)
  const many = (from: number, count: number) =>
    Array.from({ length: count }, (_, n) => ({ k: `a long key ${from + n}` }))
  decide(many(0, 20_000))
  time.wall += 600
  decide(many(20_000, 20_000))
  const blocks: Buffer[] = []
  for (const block of saved.blocks(true)) {
    blocks.push(Buffer.from(block.subarray(HEAD_BYTES)))
    // The first half is idle and dropped, while the second half is being written.
    time.wall += blocks.length === 2 ? 500 : 0
    decide([{ k: 'a long key 39999' }])
  }
  t.ok(blocks.length > 2)
  const after = throttleAt(config, 0, time)
  after.read(blocks, { now: () => time.wall })
  t.equal(after.decide(many(20_000, 20_000)), '1'.repeat(20_000))
})
