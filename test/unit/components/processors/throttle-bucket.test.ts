import t from 'tap'
import type { KeyCount } from '../../../../src/components/throttle/keyed-processor.js'
import { throttleStage } from '../../../support/throttle-stage.js'

const app = (app: unknown) => ({ app })
const times = (n: number, key: unknown) => Array.from({ length: n }, () => app(key))
const START = 1_700_000_000_000
const at = (ms: number) => new Date(START + ms).toISOString()
/** The throttles of these tests start at once. */
const COUNTED = { discarded_since: at(0) }

t.test('a bucket says how full it is, since when, and what it discarded in the last hour', async t => {
  for (const more of [{}, { summary: {} }, { mode: 'shadow' }]) {
    const { through, time, processor, series } = await throttleStage({
      limit: 3,
      window: '10s',
      key_field: '.app',
      ...more,
    })
    await time.advance(5000)
    await through([...times(5, 'a'), ...times(2, 'b'), {}])
    const about = { limit: 3, unit: 'events', window_ms: 10_000, window_mode: 'fixed', is_exact: true, ...COUNTED }
    const open = { since: at(5000), until: at(15_000) }
    t.same(processor.bucket('a'), { ...about, used: 3, ...open, discarded_last_hour: 2 })
    t.same(processor.bucket('b'), { ...about, used: 2, ...open, discarded_last_hour: 0 })
    t.same(processor.bucket(null), { ...about, used: 1, ...open, discarded_last_hour: 0 })
    t.same(processor.bucket('c'), { ...about, used: 0, discarded_last_hour: 0 })
    t.same(Object.values(series('sluice_throttle_buckets')), [2], 'to ask adds no bucket')
    await time.advance(10_000)
    t.same(processor.bucket('a'), { ...about, used: 0, discarded_last_hour: 2 }, 'no window is open')
  }
})

t.test('of several limits it is the one that is nearest, and in event time the window of the events', async t => {
  const { through, processor } = await throttleStage({
    limit: 4,
    window: '1s',
    key_field: '.app',
    also: [{ limit: 5, window: '1 Hours' }],
    time_field: '.ts',
  })
  await through([1000, 1000, 2500, 2500, 2500, 2500].map(ms => ({ ...app('a'), ts: START - 60_000 + ms })))
  t.match(processor.bucket('a'), { limit: 5, used: 5, since: at(-59_000), discarded_last_hour: 1 })
})

t.test('of many discards in a batch without other evidence some are looked at, in proportion', async t => {
  const { through, processor } = await throttleStage({ limit: 1, window: '1 Hours', key_field: '.app' })
  await through(Array.from({ length: 8000 }, (_, n) => app(n % 4 === 0 ? 'b' : 'a')).sort(() => Math.random() - 0.5))
  const [a, b] = [processor.bucket('a'), processor.bucket('b')]
  t.notOk(a.is_exact)
  t.ok(Math.abs(a.discarded_last_hour + b.discarded_last_hour - 7998) <= 1)
})

t.test('the history goes on after a reload', async t => {
  const options = { limit: 1, window: '1 Hours', key_field: '.app' }
  const first = await throttleStage(options)
  await first.through(times(3, 'a'))
  const inherited = first.processor.handOver!()!.value
  const second = await throttleStage(options, { time: first.time, inherited })
  await second.through(times(1, 'a'))
  t.match(second.processor.bucket('a'), { used: 1, discarded_last_hour: 3 })
})

t.test('keys that are watched come with their buckets', async t => {
  const { through, processor } = await throttleStage({ limit: 2, key_field: '.app' })
  const watch = processor.watchKeys()
  await through(times(3, 'a'))
  t.match(watch.end(5).keys, [{ key: 'a', passed: 2, discarded: 1, bucket: { used: 2, discarded_last_hour: 1 } }])
})

const RULES = [
  { key: 'b*', limit: 1 },
  { key: 'free', limit: 'unlimited' },
  { key: 'c', when: "if (.hot equal 'yes')", limit: 2 },
]

t.test('a key that is too long to be shown comes without a bucket, and asked for by its text it has one', async t => {
  const { through, processor } = await throttleStage({ limit: 2, key_field: '.app' })
  const long = 'ö'.repeat(5000)
  const watch = processor.watchKeys()
  await through(times(3, long))
  const [{ key, bucket, ...counts }] = watch.end(5).keys as [KeyCount]
  t.match(key, /^ö{100}…[0-9a-f]{16}$/)
  t.same([bucket, counts], [undefined, { passed: 2, discarded: 1 }])
  t.match(processor.bucket(long), { used: 2, discarded_last_hour: 1 })
})

t.test('under a rule it says how full it is now, and annotated events name the rule', async t => {
  for (const more of [{}, { annotate: true }, { time_field: '.t' }]) {
    const stage = await throttleStage({ limit: 5, window: '10s', key_field: '.app', limits: RULES, ...more })
    const { processor, time } = stage
    const { discarded } = await stage.through(times(3, 'b1').map(event => ({ ...event, t: START })))
    const rule = 'limits[0] (key b*)'
    const about = {
      rule,
      limit: 1,
      unit: 'events',
      window_ms: 10_000,
      window_mode: 'fixed',
      is_exact: true,
      ...COUNTED,
    }
    const open = { since: at(0), until: at(10_000) }
    t.same(processor.bucket('b1'), { ...about, used: 1, ...open, discarded_last_hour: 2 })
    t.same(processor.bucket('b2'), { ...about, used: 0, discarded_last_hour: 0 })
    t.same(processor.bucket('free'), {
      rule: 'limits[1] (key free)',
      discarded_last_hour: 0,
      is_exact: true,
      ...COUNTED,
    })
    t.match(processor.bucket('a'), { limit: 5, used: 0 }, 'no rule holds')
    if ('annotate' in more) t.match(JSON.parse(discarded[0]!).throttle, { bucket: 'b1', limit: 1, rule })
    if ('time_field' in more) continue
    await time.advance(10_000)
    t.same(processor.bucket('b1'), { ...about, used: 0, discarded_last_hour: 2 })
  }
})

t.test('a rule with a condition is the one that was asked for, or that discarded an event of the key', async t => {
  const stage = await throttleStage({ limit: 5, window: '10s', key_field: '.app', limits: RULES })
  const { processor } = stage
  const hot = times(2, 'c').map(event => ({ ...event, hot: 'yes' }))
  await stage.through([...hot, ...times(4, 'c')])
  t.same(processor.bucket('c'), { discarded_last_hour: 0, is_exact: true, ...COUNTED }, 'it depends on the event')
  const rule = `limits[2] (key c and if (.hot equal 'yes'))`
  t.match(processor.bucket('c', rule), { rule, limit: 2, used: 2 })
  t.match(processor.bucket('c', null), { limit: 5, used: 4 })
  t.same(processor.bucket('c', 'limits[9] (key gone)'), { discarded_last_hour: 0, is_exact: true, ...COUNTED })
  await stage.through([...hot.slice(1), ...times(2, 'c')])
  t.match(processor.bucket('c'), { limit: 5, used: 5 }, 'the last discard was by the limit of the throttle')
  await stage.through(hot)
  t.match(processor.bucket('c'), { rule, limit: 2, used: 2, discarded_last_hour: 4 })
})

t.test('without room for a key it is the default bucket that its events count in', async t => {
  for (const [on_max_keys, level] of [
    ['default_bucket', { limit: 2, used: 1 }],
    ['pass', {}],
  ] as const) {
    const { through, processor } = await throttleStage({ limit: 2, key_field: '.app', max_keys: 1, on_max_keys })
    await through([...times(2, 'a'), ...times(1, 'b')])
    t.match(processor.bucket('b'), { ...level, discarded_last_hour: 0 })
    t.equal('limit' in processor.bucket('b'), 'limit' in level)
  }
})
