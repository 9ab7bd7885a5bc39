import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import t from 'tap'
import { parse } from 'yaml'
import { throttle } from '../../../../src/components/processors/throttle.js'
import { keyedOf } from '../../../../src/components/throttle/keyed-processor.js'
import type { AckStatus } from '../../../../src/core/event/ack.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { type Logged, recordingLog } from '../../../../src/engine/testing/recording-log.js'
import { after } from '../../../../src/lib/time.js'
import { batchOf, collectLines, linesOf } from '../../../support/batches.js'
import { problemsFrom } from '../../../support/facts.js'
import { settle } from '../../../support/manual-time.js'
import { loadedStageOf } from '../../../support/stage.js'

/** A throttle by itself, in a time that stands still, with counters as the daemon has them. */
async function throttleOf(options: object) {
  const time = { now: 0, epoch: 1_700_000_000_000 }
  const settled: AckStatus[] = []
  const clock = { now: () => time.now, wall: () => time.now + time.epoch, after }
  const logs: Logged[] = []
  const { stage, processor, counters, wanted } = await loadedStageOf(
    throttle,
    { limit: 1, window: '1s', ...options },
    { clock, log: recordingLog(logs) },
  )
  /** One batch through it; the lines that are left. */
  const through = async (...lines: (string | object)[]) => {
    const batch = batchOf(lines, { wanted, onSettled: status => settled.push(status) })
    counters.arrived(batch.length, batch.bytes)
    stage.write(batch)
    await settle()
    const left = stage.read() as EventBatch | null
    left?.ack.settle('delivered')
    return left ? linesOf(left) : []
  }
  const series = (name: string) =>
    Object.fromEntries(
      (counters.series.get(name) ?? []).flatMap(({ read }) =>
        [...read()].map(({ labels, value }) => [labels.decision ?? '', value]),
      ),
    )
  return { stage, processor, time, wanted, counters, settled, logs, through, series }
}

const app = (app: string, n = 0) => ({ app, n })
t.test('one time for a batch, whole batches gone and left, every event and byte accounted for', async t => {
  const { through, time, counters, settled, series } = await throttleOf({
    limit: 2,
    key_field: '.app',
    exclude: 'if (.n equal 9)',
  })
  t.same(await through(app('a'), app('a', 1), app('b')), [
    '{"app":"a","n":0}',
    '{"app":"a","n":1}',
    '{"app":"b","n":0}',
  ])
  t.same(await through(app('a'), app('a', 9), 'no json', app('b')), [
    '{"app":"a","n":9}',
    'no json',
    '{"app":"b","n":0}',
  ])
  t.same(await through(app('a'), app('b')), [], 'nothing left')
  t.same(settled, ['delivered', 'delivered', 'delivered'], 'an emptied batch is settled, too')
  time.now = 999.9
  t.same(await through(app('a')), [])
  time.now = 1000
  t.same(await through(app('a')), ['{"app":"a","n":0}'])
  t.same(series('sluice_throttle_events_total'), { passed: 6, excluded: 1, discarded: 4, fail_open: 0 })
  t.same([...counters.discards], [['throttled', { events: 4, bytes: 4 * 18 }]])
  t.same(counters.received, { events: 11, bytes: 10 * 18 + 8 })
  t.same(counters.passed, { events: 7, bytes: 6 * 18 + 8 })
  t.same(counters.inFlight(), { events: 0, bytes: 0 })
  t.same(counters.imbalance(), { events: 0, bytes: 0 })
})

t.test('the bytes are those of the lines as read, line ends included', async t => {
  const { through, counters } = await throttleOf({})
  t.same(await through('first\r', 'second\r', 'third', ''), ['first'])
  t.same(counters.passed, { events: 1, bytes: 7 })
  t.same([...counters.discards], [['throttled', { events: 3, bytes: 8 + 6 + 1 }]])
})

t.test('beyond max_keys: passed and counted as such, or discarded with a reason of its own', async t => {
  const lines = [app('a'), app('b'), app('c'), app('a'), app('d'), {}]
  const kept = (...apps: string[]) => [...apps.map(name => JSON.stringify(app(name))), '{}']
  for (const [on_max_keys, left, decisions, reasons] of [
    ['pass', kept('a', 'b', 'c', 'd'), { passed: 3, discarded: 1, fail_open: 2 }, { throttled: 1 }],
    ['discard', kept('a', 'b'), { passed: 3, discarded: 3, fail_open: 0 }, { throttled: 1, max_keys: 2 }],
    ['default_bucket', kept('a', 'b', 'c').slice(0, 3), { passed: 3, discarded: 3, fail_open: 0 }, { throttled: 3 }],
  ] as const) {
    const { through, series, counters } = await throttleOf({ key_field: '.app', max_keys: 2, on_max_keys })
    t.same(await through(...lines), left, on_max_keys)
    t.same(series('sluice_throttle_events_total'), { ...decisions, excluded: 0 })
    t.same(Object.fromEntries([...counters.discards].map(([reason, { events }]) => [reason, events])), reasons)
    t.same(counters.imbalance(), { events: 0, bytes: 0 })
    t.same(series('sluice_throttle_buckets'), { '': 2 })
  }
})

t.test('the gauge falls when buckets are idle, though nothing comes', async t => {
  for (const window_mode of ['fixed', 'aligned', 'sliding']) {
    const { through, series, time } = await throttleOf({ key_field: '.app', window_mode })
    await through(app('a'), app('b'), app('c'))
    t.same(series('sluice_throttle_buckets'), { '': 3 })
    time.now = 3000
    t.same(series('sluice_throttle_buckets'), { '': 0 }, window_mode)
    t.same(series('sluice_throttle_max_buckets'), { '': 100_000 })
    await through(app('a'))
    t.same(series('sluice_throttle_dropped_buckets_total'), { '': 3 })
  }
})

t.test('time is monotonic: a clock that is set ends or prolongs no window, unless windows are aligned', async t => {
  const { through, time } = await throttleOf({ window: '10s', window_mode: 'fixed' })
  t.equal((await through('1')).length, 1)
  time.epoch += 60_000
  t.equal((await through('2')).length, 0)
  time.epoch -= 120_000
  time.now = 10_000
  t.equal((await through('3')).length, 1)
  const aligned = await throttleOf({ window: '10s', window_mode: 'aligned' })
  aligned.time.now = 4000
  t.equal((await aligned.through('1')).length, 1)
  aligned.time.now = 9999
  t.equal((await aligned.through('2')).length, 0)
  aligned.time.now = 10_000
  t.equal((await aligned.through('3')).length, 1)
  aligned.time.epoch += 12_000
  t.equal((await aligned.through('4')).length, 1, 'forward: into the next window')
  aligned.time.epoch -= 3_600_000
  t.equal((await aligned.through('5')).length, 1, 'back: a new window rather than an hour of silence')
  t.equal((await aligned.through('6')).length, 0)
})

t.test(
  'what is discarded comes out at its own output where somebody reads it, with backpressure from there',
  async t => {
    const { stage, wanted, settled, counters } = await throttleOf({ key_field: '.app' })
    const discarded = stage.outputs.get('discarded')!
    ;(discarded as unknown as { connected: boolean }).connected = true
    const batches = Array.from({ length: 40 }, (_, n) =>
      batchOf([app('a', n), app(`k${n}`, n), app('a', n)], { wanted, onSettled: status => settled.push(status) }),
    )
    for (const batch of batches) counters.arrived(batch.length, batch.bytes)
    const [kept, dropped]: [string[], string[]] = [[], []]
    let taken = 0
    const source = Readable.from(
      (function* () {
        for (const batch of batches) {
          taken++
          yield batch
        }
      })(),
      { highWaterMark: 1 },
    )
    const done = pipeline(source, stage, collectLines(kept))
    for (let i = 0; i < 10; i++) await settle()
    t.ok(taken < 20, `waits for the side output: ${taken} of 40 batches taken`)
    t.equal(dropped.length, 0)
    await Promise.all([done, pipeline(discarded!, collectLines(dropped))])
    t.equal(kept.length, 41)
    t.equal(dropped.length, 79)
    t.same(
      dropped.slice(0, 3),
      [app('a', 0), app('a', 1), app('a', 1)].map(event => JSON.stringify(event)),
    )
    t.same(new Set([...kept, ...dropped]).size, 80, 'each is in one of the two')
    t.equal(settled.length, 40, 'a batch is settled when both of its parts are')
    t.same(counters.imbalance(), { events: 0, bytes: 0 })
    t.same(counters.discards.get('throttled')?.events, 79, 'counted as discarded all the same')
  },
)

t.test('the schema refuses what makes no sense, and its example runs', async t => {
  const refused = [
    {},
    { limit: 0 },
    { limit: 1.5 },
    { limit: '1' },
    { limit: 2 ** 32 },
    { window: '0s' },
    { window: '1 Week' },
    { window: 10 },
    { key_field: 'app' },
    { key_field: ' ' },
    { exclude: '.host equals 1' },
    { window_mode: 'tumbling' },
    { max_keys: 0 },
    { on_max_keys: 'evict' },
    { limits: 1 },
  ]
  for (const options of refused) {
    const all = 'limit' in options || Object.keys(options).length === 0 ? options : { limit: 1, ...options }
    const parsed = throttle.options.safeParse({ window: '1s', ...all })
    t.notOk(parsed.success, JSON.stringify(options))
  }
  for (const key_field of ['', null, undefined]) {
    const { through } = await throttleOf({ key_field })
    t.same((await through(app('a'), app('b'))).length, 1, 'blank: all in the default bucket')
  }
  t.match(throttle.options.parse({ limit: 1, window: { value: 2, unit: 'Minutes' } }), {
    window: 120_000,
    window_mode: 'fixed',
    max_keys: 100_000,
    on_max_keys: 'pass',
  })
  for (const { title, yaml, input = [], output } of throttle.examples) {
    const { through } = await throttleOf(parse(yaml))
    t.same(await through(...input), output, title)
  }
})

t.test('keys are counted while somebody looks, by each who does', async t => {
  const { processor, through, time } = await throttleOf({ limit: 2, key_field: '.app' })
  await through(app('a'))
  const keyed = keyedOf(processor)!
  const first = keyed.watchKeys()
  await through(app('a'), app('a'), app('b'))
  const second = keyed.watchKeys()
  time.now = 1000
  await through(app('b'))
  t.match(first.end(10).keys, [
    { key: 'a', passed: 1, discarded: 1 },
    { key: 'b', passed: 2, discarded: 0 },
  ])
  await through(app('c'))
  t.match(second.end(10).keys, [
    { key: 'b', passed: 1, discarded: 0 },
    { key: 'c', passed: 1, discarded: 0 },
  ])
})

t.test('a quota that counts in a later period, since the clock was set back, is reported', async t => {
  const quota = { limit: 1, per: 'day', time_zone: 'UTC' }
  const it = await throttleOf({ limit: undefined, window: undefined, quota })
  const { through, time, logs, series } = it
  const right = time.epoch
  const day = 86_400_000
  const ahead = () => series('sluice_throttle_quota_ahead_timestamp_seconds')['']
  t.equal((await through(app('a'))).length, 1)
  time.epoch = right + 10 * day
  t.equal((await through(app('a'))).length, 1)
  t.equal(ahead(), 0)
  time.epoch = right
  for (const _ of [1, 2]) t.equal((await through(app('a'))).length, 0, 'nothing is given twice')
  const end = (Math.floor(right / day) + 11) * day
  t.equal(ahead(), end / 1000)
  t.match(problemsFrom(it.counters), [
    {
      what: /: its events count in the quota of a later period until .*\d\d:\d\d:\d\d, because the clock was set back$/,
      todo: /systemctl restart sluice/,
    },
  ])
  const warned = logs.filter(({ fields }) => fields.code === 'SLUICE_QUOTA_AHEAD')
  t.match(warned, [{ fields: { until: new Date(end).toISOString() }, text: /systemctl restart sluice$/ }])
  t.equal(warned.length, 1)
  time.epoch = end + 1
  t.equal((await through(app('a'))).length, 1)
  t.equal(ahead(), 0)
})

t.test('a key that no event has, and keys beyond max_keys, are told once', async t => {
  const codes = (logs: readonly Logged[]) => logs.map(({ fields }) => fields.code)
  const without = await throttleOf({ key_field: '.ap', exclude: 'if (.n equal 9)' })
  await without.through(app('a', 9))
  t.same(codes(without.logs), [], 'what is excluded needs no key')
  await without.through(app('a'), app('b'))
  await without.through(app('c'))
  t.same(codes(without.logs), ['SLUICE_KEY_MISSING'])
  t.match(without.logs[0], { text: /^not one of the first 2 events has the key \.ap: / })
  t.match(without.series('sluice_throttle_keyless_events'), { '': 3 })
  t.match(problemsFrom(without.counters), [
    { what: /: not one of 3 events had the key, so all share one bucket and its limit$/, todo: /^Correct key_field/ },
  ])
  await without.through({ ap: 'a' })
  t.match(without.series('sluice_throttle_keyless_events'), { '': 0 })

  for (const on_max_keys of ['pass', 'discard']) {
    const full = await throttleOf({ key_field: '.app', max_keys: 1, on_max_keys })
    await full.through(app('a'))
    t.same(codes(full.logs), [])
    for (const key of ['b', 'c']) await full.through(app(key))
    t.same(codes(full.logs), ['SLUICE_MAX_KEYS'], on_max_keys)
  }
  const shadow = await throttleOf({ key_field: '.app', max_keys: 1, on_max_keys: 'discard', mode: 'shadow' })
  await shadow.through(app('a'), app('b'))
  t.same(codes(shadow.logs), [], 'nothing is discarded in shadow mode')
})
