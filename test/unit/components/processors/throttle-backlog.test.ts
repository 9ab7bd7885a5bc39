import t, { type Test } from 'tap'
import { throttle } from '../../../../src/components/processors/throttle.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { ComponentCounters } from '../../../../src/engine/flow/counters.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { batchOf, linesOf } from '../../../support/batches.js'
import { ManualTime, settle } from '../../../support/manual-time.js'
import { loadedStageOf } from '../../../support/stage.js'

/** A throttle by itself, in a time that stands still. */
async function throttleOf(options: object) {
  const clock = new ManualTime()
  const { stage, counters, wanted } = await loadedStageOf(throttle, { limit: 1, window: '1s', ...options }, { clock })
  /** The lines that are left of a batch. */
  const through = async (isBacklog: boolean, ...lines: object[]) => {
    const batch = batchOf(lines, { wanted, isBacklog })
    counters.arrived(batch.length, batch.bytes)
    stage.write(batch)
    await settle()
    const left = stage.read() as EventBatch | null
    left?.ack.settle('delivered')
    return left ? linesOf(left) : []
  }
  const decisions = () =>
    Object.fromEntries(
      (counters.series.get('sluice_throttle_events_total') ?? []).flatMap(({ read }) =>
        [...read()].flatMap(({ labels, value }) => (value > 0 ? [[labels.decision, value]] : [])),
      ),
    )
  const discards = () => Object.fromEntries([...counters.discards].map(([reason, { events }]) => [reason, events]))
  return { clock, counters, through, decisions, discards }
}

const event = (n: number, more = {}) => ({ n, ...more })

t.test('discarded backlog has a reason of its own on the clock', async t => {
  const { through, decisions, discards, counters } = await throttleOf({ exclude: 'if (.n equal 9)' })
  t.same(await through(true, event(1), event(2), event(9), event(3)), ['{"n":1}', '{"n":9}'])
  t.same(await through(false, event(4)), [], 'both count in the same window')
  t.same(discards(), { throttled_backlog: 2, throttled: 1 })
  t.same(decisions(), { passed: 1, excluded: 1, discarded: 3 })
  t.same(counters.imbalance(), { events: 0, bytes: 0 })
})

t.test('in event time backlog is as any other', async t => {
  const { through, discards } = await throttleOf({ time_field: '.t', on_backlog: 'pass' })
  t.same(await through(true, event(1, { t: 1000 }), event(2, { t: 1500 }), event(3, { t: 2000 })), [
    '{"n":1,"t":1000}',
    '{"n":3,"t":2000}',
  ])
  t.same(discards(), { throttled: 1 })
})

t.test('on_backlog: pass lets it through without counting it', async t => {
  const { through, decisions, discards } = await throttleOf({ on_backlog: 'pass' })
  t.equal((await through(true, event(1), event(2), event(3))).length, 3)
  t.same(await through(false, event(4), event(5)), ['{"n":4}'])
  t.same(decisions(), { backlog: 3, passed: 1, discarded: 1 })
  t.same(discards(), { throttled: 1 })
})

/** A throttle in a stage, with sources that send to it; what was read again after a stop is not modelled. */
async function flowOf(options: object) {
  const clock = new ManualTime()
  const counters = new ComponentCounters('p', 'processor', 'throttle')
  const wanted = new WantedNames()
  const left: { source: string; n: number; app?: string; at: number }[] = []
  const begin = async (options: object, inherited?: unknown) => {
    const made = await loadedStageOf(throttle, options, { clock, counters, wanted, inherited })
    made.stage.on('data', (batch: EventBatch) => {
      for (const line of linesOf(batch))
        left.push({ source: batch.origin.source, ...JSON.parse(line), at: clock.now() })
      batch.ack.settle('delivered')
    })
    return made
  }
  let { stage, processor } = await begin(options)
  /** A reload, by default to the same options. */
  const reload = async (others?: object) => {
    stage.endWaiting(() => true)
    stage.end()
    await settle()
    const waiting = stage.leftToSuccessor.map(left => (others ? { ...left, dueAt: 0 } : left))
    counters.retire()
    ;({ stage, processor } = await begin(others ?? options, others ? undefined : processor.handOver!()!.value))
    for (const left of waiting) {
      left.batch.renew()
      counters.arrived(left.batch.length, left.batch.bytes)
      stage.inherit(left)
    }
    await settle()
  }
  const send = async (source: string, isBacklog: boolean, events: object[], receivedAt = clock.wall()) => {
    const batch = batchOf(events, { wanted, source, isBacklog, receivedAt })
    counters.arrived(batch.length, batch.bytes)
    stage.write(batch)
    await settle()
  }
  const discards = () => Object.fromEntries([...counters.discards].map(([reason, { events }]) => [reason, events]))
  const advance = async (ms: number) => {
    for (let gone = 0; gone < ms; gone += 10) await clock.advance(10)
  }
  return { clock, counters, left, send, discards, advance, reload }
}

const many = (from: number, to: number, more = {}) => Array.from({ length: to - from }, (_, i) => event(from + i, more))

t.test('keys chosen to have the same hash do not share a queue', async t => {
  const run = await flowOf({ limit: 1, window: '1s', key_field: '.app', on_backlog: 'pace' })
  await run.send('one', true, many(0, 5, { app: 'bzvd' }))
  // With 0 as the seed of the hash, these two keys have the same one.
  await run.send('other', false, many(0, 2, { app: 'oohi' }))
  t.same(run.discards(), { throttled: 1 }, 'what is over the limit does not wait for room that another app has taken')
})

for (const window_mode of ['fixed', 'aligned', 'sliding']) {
  t.test(`an app within its limit loses nothing of a backlog that is paced (${window_mode})`, async t => {
    // 50 lines a second, ten seconds missed: they come at once, while the app goes on.
    const run = await flowOf({ limit: 200, window: '1s', window_mode, on_backlog: 'pace' })
    await run.send('app', true, many(0, 500))
    let n = 500
    for (let ms = 0; ms < 10_000; ms += 100) {
      await run.advance(100)
      await run.send('app', false, many(n, n + 5))
      n += 5
    }
    t.same(run.discards(), {})
    t.equal(run.counters.imbalance().events, 0)
    t.equal(run.counters.held().events, 0)
    t.same(
      run.left.map(({ n }) => n).toSorted((a, b) => a - b),
      Array.from({ length: n }, (_, i) => i),
    )
    // Of those of any second at most 200, as always.
    const windows = window_mode === 'sliding' ? run.left : []
    for (const { at } of windows)
      t.ok(run.left.filter(other => other.at > at - 1000 && other.at <= at).length <= 200, `in the second to ${at}`)
  })
}

/** An app writes steadily, so many lines a second, and some of them were missed for a while. */
async function steady(t: Test, options: object, rate: number, missedMs: number, forMs = 5000) {
  const run = await flowOf({ on_backlog: 'pace', ...options })
  let n = 0
  const writtenBy = (ms: number) =>
    many(n, (n = Math.floor((ms * rate) / 1000)), { app: 'a', pad: 'x'.repeat(100 - String(n).length) })
  await run.send('app', true, writtenBy(missedMs))
  for (let ms = missedMs; ms < missedMs + forMs; ms += 20) {
    await run.clock.advance(20)
    await run.send('app', false, writtenBy(ms + 20))
  }
  t.same(run.discards(), {}, `${rate} a second, ${missedMs} ms missed`)
  t.equal(run.counters.imbalance().events, 0)
  return { run, n }
}

for (const window_mode of ['fixed', 'aligned', 'sliding', 'gcra']) {
  t.test(`an app within its limit loses nothing to a backlog that passes at once (${window_mode})`, async t => {
    for (const rate of [50, 190, 199, 200]) {
      const { run, n } = await steady(t, { limit: 200, window: '1s', window_mode }, rate, 950)
      if (rate === 50) t.equal(run.left.length, n, 'it catches up')
    }
  })
}

for (const [name, options] of Object.entries({
  'two limits': { limit: 200, window: '1s', also: [{ limit: 1000, window: '5s' }] },
  'a limit of bytes': { limit_bytes: 200 * 130, window: '1s' },
  'gcra with costs': { limit: 400, window: '1s', window_mode: 'gcra', burst: 399, cost: '.cost' },
  'a quota': { quota: { limit: 3_600_000, per: 'hour' }, limit: 200, window: '1s' },
  'a rule': { limit: 1, window: '1h', key_field: '.app', limits: [{ key: 'a', limit: 200, window: '1s' }] },
  'a rule with a condition': {
    limit: 1,
    window: '1h',
    limits: [{ when: "if (.app equal 'a')", limit: 200, window: '1s' }],
  },
  'events that may wait as well when they are live': { limit: 200, window: '1s', over_limit: { wait: '50ms' } },
}))
  t.test(`an app within its limit loses nothing with ${name}`, async t => {
    for (const missedMs of [950, 10_000]) await steady(t, options, 190, missedMs)
  })

for (const window_mode of ['fixed', 'aligned', 'sliding', 'gcra'])
  t.test(`what is read late while the daemon catches up is not over the limit (${window_mode})`, async t => {
    const run = await flowOf({ limit: 200, window: '1s', window_mode, on_backlog: 'pace' })
    await run.send('app', true, many(0, 1900))
    // 190 a second, of which half a second's worth is read at once, now and then.
    for (let ms = 0, due = 0; ms < 12_000; ms += 100, due += 19) {
      await run.clock.advance(100)
      if (ms % 3000 >= 2500) continue
      await run.send('app', false, many(0, due))
      due = 0
    }
    t.same(run.discards(), {})
  })

t.test('what an app writes beyond its limit is discarded while it catches up, too', async t => {
  const run = await flowOf({ limit: 200, window: '1s', on_backlog: 'pace' })
  await run.send('app', true, many(0, 500))
  for (let ms = 0; ms < 10_000; ms += 50) {
    await run.clock.advance(50)
    await run.send('app', false, many(0, 20))
  }
  const { throttled } = run.discards()
  // Twice the limit at once is tolerated, no more.
  t.ok(throttled! >= 1600, `${throttled} of 4000 that came at twice the limit`)
  t.ok(run.counters.held().events <= 500 + 400, 'what waited at the beginning, and what is tolerated')
})

t.test('what came live and was kept up behind others counts at the time it came', async t => {
  const run = await flowOf({ limit: 10, window: '1s', key_field: '.app', on_backlog: 'pace' })
  await run.send('one', true, many(0, 20, { app: 'behind' }))
  await run.clock.advance(500)
  // A second's worth that came half a second ago, and the next half of one.
  await run.send('one', false, many(0, 10, { app: 'live' }), run.clock.wall() - 500)
  await run.clock.advance(500)
  await run.send('one', false, many(10, 20, { app: 'live' }))
  t.same(run.discards(), {})
  await run.clock.advance(1000)
  t.equal(run.left.filter(({ app }) => app === 'live').length, 20)
})

for (const window_mode of ['fixed', 'aligned', 'sliding', 'gcra']) {
  t.test(`reloads make no difference to what waits (${window_mode})`, async t => {
    const flows = []
    for (const reloads of [false, true]) {
      // An event a second, three minutes missed, and a flood of another app.
      const waits = { on_backlog: 'pace', over_limit: { wait: '20s' } }
      const run = await flowOf({ limit: 80, window: '1m', window_mode, key_field: '.app', ...waits })
      await run.send('app', true, many(0, 180, { app: 'a' }))
      for (let n = 180; n < 600; n++) {
        await run.clock.advance(1000)
        await run.send('app', false, [event(n, { app: 'a' })])
        if (n < 300) await run.send('other', false, many(n * 10, n * 10 + 10, { app: 'b' }))
        if (reloads && n % 7 === 0) await run.reload()
      }
      await run.send('app', false, many(600, 800, { app: 'a' }))
      await run.clock.advance(60_000)
      t.same(run.counters.imbalance(), { events: 0, bytes: 0 })
      const ofApp = (name: string) => run.left.filter(({ app }) => app === name)
      flows.push({ a: ofApp('a'), b: ofApp('b'), discards: run.discards() })
    }
    t.same(flows[1], flows[0])
    t.ok(flows[0]!.discards.throttled! > 200)
  })

  t.test(`what is live waits until its bucket has caught up, however long that takes (${window_mode})`, async t => {
    // An event a second, and seven and a half minutes missed: there is more than the limit lets through for long after.
    const run = await flowOf({ limit: 100, window: '1m', window_mode, on_backlog: 'pace' })
    await run.send('app', true, many(0, 450))
    let n = 450
    for (; n < 1350; n++) {
      await run.clock.advance(1000)
      await run.send('app', false, [event(n)])
    }
    t.same(run.discards(), {})
    t.equal(run.counters.held().events, 0)
    t.equal(run.left.length, n)
  })
}

t.test('of an app that always writes more than its limit, no more waits after its backlog than before', async t => {
  const run = await flowOf({ limit: 10, window: '10s', on_backlog: 'pace' })
  await run.send('app', true, many(0, 30))
  let most = 0
  for (let n = 30; n < 230; n += 2) {
    await run.clock.advance(1000)
    await run.send('app', false, many(n, n + 2))
    if (n < 70) most = Math.max(most, run.counters.held().events)
  }
  t.ok(most > 20 && run.counters.held().events <= most, `${run.counters.held().events} wait, ${most} did`)
  t.match(run.discards(), { throttled: Number })
  t.equal(run.counters.imbalance().events, 0)
  await run.advance(60_000)
  t.equal(run.counters.held().events, 0)
  await run.send('app', false, many(300, 320))
  t.equal(run.counters.held().events, 0, 'when nothing is behind any more, it is a flood')
})

t.test('the order of each bucket stays', async t => {
  const run = await flowOf({ limit: 3, window: '1s', key_field: '.app', on_backlog: 'pace' })
  for (let n = 0; n < 60; n += 10)
    await run.send(
      'a',
      true,
      many(n, n + 10).map((event, i) => ({ ...event, app: i % 2 ? 'odd' : 'even' })),
    )
  await run.advance(12_000)
  t.equal(run.left.length, 60)
  for (const app of ['odd', 'even']) {
    const order = run.left.filter(event => event.app === app).map(({ n }) => n)
    t.same(
      order,
      order.toSorted((a, b) => a - b),
    )
  }
})

t.test('other keys and other sources go on', async t => {
  const run = await flowOf({ limit: 10, window: '1s', key_field: '.app', on_backlog: 'pace' })
  await run.send('behind', true, [...many(0, 100, { app: 'a' }), ...many(0, 5, { app: 'b' })])
  await run.send('live', false, many(0, 5, { app: 'c' }))
  t.equal(run.left.filter(({ app }) => app === 'b').length, 5)
  t.equal(run.left.filter(({ source }) => source === 'live').length, 5)
  await run.send('live', false, many(5, 20, { app: 'c' }))
  t.same(run.discards(), { throttled: 10 }, 'a flood is still a flood')
})

t.test('what waited behind backlog waits under other options as well, and what comes meanwhile', async t => {
  const run = await flowOf({ limit: 10, window: '10s', on_backlog: 'pace' })
  await run.send('behind', true, many(0, 15))
  await run.send('live', false, many(100, 110))
  await run.advance(10_000)
  t.equal(run.left.length, 20, 'the backlog has passed, and some behind it')
  await run.reload({ limit: 2, window: '10s', on_backlog: 'pace' })
  t.equal(run.left.length, 22)
  await run.send('live', false, many(113, 115))
  await run.advance(40_000)
  t.same(run.discards(), {})
  t.equal(run.left.length, 27)
  t.same(run.counters.imbalance(), { events: 0, bytes: 0 })
})

t.test('behind backlog, only limits of events have room for bursts of live events', async t => {
  const also = [{ limit_bytes: 40, window: '1s' }]
  const { through, decisions } = await throttleOf({ limit: 9, also, on_backlog: 'pace', max_delay: '1h' })
  const long = (n: number) => event(n, { text: 'x'.repeat(20) })
  t.equal((await through(true, long(1), long(2))).length, 1)
  t.same(await through(false, long(3), long(4)), [])
  t.same(decisions(), { passed: 1, discarded: 1 }, 'the third waits')
})

t.test('what is live waits for a bucket that backlog has filled', async t => {
  const run = await flowOf({ limit: 10, window: '1s', on_backlog: 'pace' })
  await run.send('behind', true, many(0, 25))
  await run.send('live', false, many(100, 105))
  await run.advance(5000)
  t.same(run.discards(), {})
  t.equal(run.left.length, 30)
  await run.send('live', false, many(200, 215))
  t.same(run.discards(), { throttled: 5 }, 'when nothing is behind any more, it is a flood')
})

t.test('what waits longer than max_delay, or would, is decided as if it were live', async t => {
  const run = await flowOf({ limit: 10, window: '1s', on_backlog: 'pace', max_delay: '2500ms' })
  await run.send('behind', true, many(0, 100))
  await run.advance(1900)
  t.equal(run.left.length, 20)
  t.same(run.discards(), {})
  await run.advance(1000)
  t.equal(run.left.length, 30)
  t.same(run.discards(), { throttled_backlog: 70 })
  const inVain = await flowOf({ limit: 10, window: '1h', on_backlog: 'pace', max_delay: '1m' })
  await inVain.send('behind', true, many(0, 100))
  t.same(inVain.discards(), { throttled_backlog: 90 })
})

t.test('over_limit: wait keeps what is over the limit for so long', async t => {
  const run = await flowOf({ limit: 10, window: '1s', over_limit: { wait: '1500ms' } })
  await run.send('in', false, many(0, 35))
  t.equal(run.left.length, 10)
  await run.advance(900)
  t.equal(run.left.length, 10)
  t.same(run.discards(), {})
  await run.advance(2000)
  t.equal(run.left.length, 20, 'there is room once in that time')
  t.same(run.discards(), { throttled: 15 })
  t.equal(run.counters.imbalance().events, 0)
})

for (const window_mode of ['fixed', 'gcra']) {
  t.test(
    `without backlog, on_backlog: pace lets nothing wait for longer than over_limit says (${window_mode})`,
    async t => {
      const [paced, plain] = await Promise.all(
        [{ on_backlog: 'pace' }, {}].map(async more => {
          const over_limit = { wait: '2s' }
          const run = await flowOf({ limit: 4, window: '1500ms', window_mode, over_limit, ...more })
          await run.send('a', false, many(0, 5))
          await run.advance(1500)
          await run.send('b', false, many(8, 14))
          await run.send('b', false, many(14, 20), run.clock.wall() - 10)
          await run.advance(500)
          await run.send('c', false, many(20, 26))
          await run.advance(10_000)
          return { left: run.left, discards: run.discards() }
        }),
      )
      t.match(plain!.discards, { throttled: /[1-9]/ })
      t.same(paced, plain)
    },
  )
}

t.test('in shadow mode nothing waits', async t => {
  const run = await flowOf({ limit: 1, window: '1s', mode: 'shadow', over_limit: { wait: '5s' }, on_backlog: 'pace' })
  await run.send('in', true, many(0, 10))
  t.equal(run.left.length, 10)
})

t.test('options that have no effect are refused', async t => {
  for (const options of [
    { max_delay: '1s' },
    { max_delay: '1s', on_backlog: 'pass' },
    { over_limit: { wait: '1s' }, time_field: '.t' },
    { over_limit: { wait: 0 } },
    { on_backlog: 'later' },
  ])
    t.notOk(throttle.options.safeParse({ limit: 1, window: '1s', ...options }).success, JSON.stringify(options))
})

t.test('a small event waits although one before it is too large to wait', async t => {
  const run = await flowOf({ limit_bytes: 60, window: '10s', on_backlog: 'pace' })
  await run.send('app', true, [event(0, { pad: 'x'.repeat(30) }), event(1, { pad: 'x'.repeat(60) }), event(2)])
  t.same(run.discards(), { throttled_backlog: 1 })
  await run.send('app', true, [event(3, { pad: 'x'.repeat(20) })])
  await run.advance(10_000)
  t.same(
    run.left.map(({ n, at }) => [n, at]),
    [
      [0, 0],
      [2, 0],
      [3, 10_000],
    ],
  )
})

t.test('an event waits for the window of its own rule', async t => {
  const limits = [
    { when: "if (.lv equal 'slow')", window: '5s' },
    { when: "if (.lv equal 'day')", window: '24h' },
  ]
  const run = await flowOf({ limit: 1, window: '1s', key_field: '.app', over_limit: { wait: '8s' }, limits })
  const two = (from: number, lv: string) => many(from, from + 2, { app: 'a', lv })
  await run.send('app', false, [...two(0, 'slow'), ...two(2, 'day'), ...two(4, 'fast')])
  t.same(run.discards(), { throttled: 1 }, 'it would wait for a day')
  await run.advance(8000)
  t.same(
    run.left.map(({ n, at }) => [n, at]),
    [
      [0, 0],
      [2, 0],
      [4, 0],
      [5, 1000],
      [1, 5000],
    ],
  )
})

t.test('what is live waits behind backlog of its bucket, whatever another rule of the key has waited for', async t => {
  const limits = [{ when: "if (.lv equal 'error')", window: '1s' }]
  const run = await flowOf({ limit: 1, window: '10s', on_backlog: 'pace', limits })
  await run.send('behind', true, many(0, 3))
  await run.send('behind', true, many(3, 5, { lv: 'error' }))
  await run.send('live', false, [event(5)])
  await run.advance(60_000)
  t.same(run.discards(), {})
  t.equal(run.left.length, 6)
})
