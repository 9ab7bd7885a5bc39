import t from 'tap'
import { batchOf } from '../../../support/batches.js'
import type { ManualTime } from '../../../support/manual-time.js'
import { seeded } from '../../../support/seeded.js'
import { throttleStage } from '../../../support/throttle-stage.js'

const app = (app: unknown, n = 0) => ({ app, n })
const START = 1_700_000_000_000
const at = (ms: number) => new Date(START + ms).toISOString()
const options = (summary: object = {}, more: object = {}) => ({
  key_field: '.app',
  summary,
  window: '1 Hours',
  ...more,
})

type Stage = Awaited<ReturnType<typeof throttleStage>>

/** What a stage emits when an interval ends. */
async function interval({ time, left }: { time: ManualTime; left: Stage['left'] }, ms = 10_000) {
  await time.advance(ms)
  const { passed, discarded } = await left()
  return { passed: passed.map(line => JSON.parse(line)), discarded: discarded.map(line => JSON.parse(line)) }
}

t.test('an event for each bucket with discards, at the end of an interval that has some', async t => {
  const stage = await throttleStage(options())
  const { through, time, counters } = stage
  await through([app('a'), app('b'), app('c'), {}])
  t.same((await interval(stage)).passed, [])
  await time.advance(500)
  await through([app('a', 1), app('b', 2), app('a', 3), { n: 4 }])
  await time.advance(2500)
  await through([app('a', 5)])
  const about = { component: 'p', interval_ms: 10_000 }
  t.same(
    (await interval(stage, 7000)).passed,
    [
      ['a', 3, 3 * 18, 500, 3000, app('a', 1)],
      ['b', 1, 18, 500, 500, app('b', 2)],
      [null, 1, 8, 500, 500, { n: 4 }],
    ].map(([bucket, discarded_events, discarded_bytes, first, last, sample]) => ({
      message: 'throttled',
      timestamp: at(20_000),
      throttle: {
        ...about,
        bucket,
        discarded_events,
        discarded_bytes,
        first: at(10_000 + Number(first)),
        last: at(10_000 + Number(last)),
        sample: JSON.stringify(sample),
      },
    })),
  )
  t.same((await interval(stage)).passed, [], 'they are said once')
  t.same(counters.emittedEvents.events, 3)
  t.same(counters.imbalance(), { events: 0, bytes: 0 })
})

t.test('they go where they are wanted, and only where somebody reads', async t => {
  for (const [to, passed, discarded] of [
    ['passed', 1, 0],
    ['discarded', 0, 1],
    ['both', 1, 1],
  ] as const) {
    const stage = await throttleStage(options({ to }))
    await stage.through([app('a'), app('a')])
    const found = await interval(stage)
    t.same([found.passed.length, found.discarded.length], [passed, discarded], to)
    const { counters } = stage
    t.same(
      [counters.emittedEvents.events, counters.aside.get('discarded')?.events ?? 0],
      [passed + discarded, discarded],
    )
    t.same(counters.imbalance(), { events: 0, bytes: 0 })
  }
  const unread = await throttleStage(options({ to: 'both' }))
  unread.stage.outputs.get('discarded')!.connected = false
  await unread.through([app('a'), app('a')])
  const found = await interval(unread)
  t.same([found.passed.length, found.discarded.length], [1, 0])
  t.equal(unread.counters.emittedEvents.events, 1)
})

t.test('beyond max_per_interval the rest is one exact event, and the heaviest buckets are named', async t => {
  const stage = await throttleStage(options({ max_per_interval: 2 }))
  const events = Array.from({ length: 20 }, (_, n) => Array.from({ length: n + 2 }, () => app(`k${n}`))).flat()
  await stage.through(events)
  const { passed } = await interval(stage)
  t.same(
    passed.map(({ throttle }) => [throttle.bucket, throttle.discarded_events]).slice(1),
    [
      ['k6', 7],
      ['__other__', 210 - 8 - 7],
    ],
    'of the eight buckets that are counted by name',
  )
  t.match(passed[0].throttle, { bucket: 'k7', discarded_events: 8 })
  t.same(stage.series('sluice_throttle_summarized_other_events_total'), { '': 210 - 8 - 7 })
})

t.test('a bucket of the name __other__ is not the rest', async t => {
  const stage = await throttleStage(options())
  await stage.through([app('__other__'), app('__other__')])
  t.equal((await interval(stage)).passed[0].throttle.bucket, '___other__')
})

t.test('what an interval has begun is summed up at the end and before a successor', async t => {
  for (const isReplaced of [false, true]) {
    const stage = await throttleStage(options())
    await stage.through([app('a'), app('a')])
    await stage.time.advance(1234)
    const { passed } = await stage.end(isReplaced)
    t.match(JSON.parse(passed[0]!).throttle, { bucket: 'a', discarded_events: 1, interval_ms: 1234 })
  }
})

t.test('over a run the sums are exactly what was discarded, through reloads', async t => {
  for (let seed = 1; seed <= 10; seed++) {
    const random = seeded(seed)
    const all = options(
      { max_per_interval: 3, every: '1s' },
      {
        limit: 2,
        window: '3s',
        max_keys: 20,
        on_max_keys: 'discard',
        over_limit: seed % 2 ? { pass_one_in: 3 } : 'discard',
      },
    )
    let stage = await throttleStage(all)
    const { time, counters } = stage
    const sums = { events: 0, bytes: 0 }
    const note = (lines: string[]) => {
      for (const line of lines) {
        const { throttle } = JSON.parse(line)
        sums.events += throttle?.discarded_events ?? 0
        sums.bytes += throttle?.discarded_bytes ?? 0
      }
    }
    for (let round = 0; round < 60; round++) {
      note((await stage.through(Array.from({ length: 30 }, (_, n) => app(`k${Math.floor(random() * 40)}`, n)))).passed)
      await time.advance(random() * 800)
      if (random() < 0.8) continue
      note((await stage.end(true)).passed)
      stage = await throttleStage(all, { time, counters, inherited: stage.processor.handOver!()!.value })
    }
    note((await stage.end()).passed)
    const discarded = { events: 0, bytes: 0 }
    for (const { events, bytes } of counters.discards.values()) {
      discarded.events += events
      discarded.bytes += bytes
    }
    t.ok(discarded.events > 100)
    t.same(sums, discarded, `seed ${seed}`)
    t.same(counters.imbalance(), { events: 0, bytes: 0 })
  }
})

t.test('a sample is valid text of bounded length, of the event as it is', async t => {
  const stage = await throttleStage(options({}, { limit: 1, key_field: undefined }))
  const { through } = stage
  const samples = async (line: string | Buffer) => {
    await through([line as string])
    return (await interval(stage)).passed[0].throttle.sample
  }
  await through(['first'])
  t.equal(await samples(`{"x":"${'ö'.repeat(300)}"}`), `{"x":"${'ö'.repeat(125)}`, 'no character is cut')
  t.equal(await samples(Buffer.from([0x61, 0xff, 0x62])), 'a\ufffdb')
})

t.test('in shadow they say that nothing was discarded', async t => {
  const stage = await throttleStage(options({}, { mode: 'shadow' }))
  await stage.through([app('a'), app('a')])
  t.match((await interval(stage)).passed, [
    { message: 'would be throttled', throttle: { mode: 'shadow', bucket: 'a', discarded_events: 1 } },
  ])
})

t.test('while nobody takes discarded events, intervals get longer, and nothing piles up', async t => {
  const stage = await throttleStage(options({ to: 'discarded', every: '1s' }))
  const output = stage.stage.outputs.get('discarded')!
  const lines: string[] = []
  for (let n = 0; n < 30; n++) {
    if (!output.writableNeedDrain) stage.stage.write(batchOf([app('a')], { wanted: stage.wanted }))
    await stage.time.advance(1000)
    if (n < 5) lines.push(...(await stage.left()).discarded)
  }
  const waiting = output.readableLength + output.writableLength
  t.ok(waiting < 12, `${waiting} batches wait`)
  for (let n = 0; n < 10; n++) lines.push(...(await stage.left()).discarded)
  lines.push(...(await stage.end()).discarded)
  const found = lines.map(line => JSON.parse(line))
  const summed = found.reduce((all, { throttle }) => all + (throttle?.discarded_events ?? 0), 0)
  t.ok(summed > 1)
  t.equal(summed, found.filter(({ throttle }) => !throttle).length, 'all are summed up')
})
