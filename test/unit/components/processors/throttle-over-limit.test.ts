import t from 'tap'
import { components } from '../../../../src/components/list.js'
import { throttle } from '../../../../src/components/processors/throttle.js'
import { parseConfig } from '../../../../src/engine/config/load.js'
import { throttleStage } from '../../../support/throttle-stage.js'

/** How many events there were of each decision. */
function decisions({ series }: { series: (name: string) => Record<string, number> }) {
  const found = Object.entries(series('sluice_throttle_events_total')).filter(([, value]) => value > 0)
  return Object.fromEntries(found.map(([labels, value]) => [labels.replaceAll(/(decision|mode)=/g, ''), value]))
}

const app = (app: unknown, n = 0) => ({ app, n })
const text = (event: object) => JSON.stringify(event)
const note = (bucket: string | null, more: object = {}) => ({
  throttle: { component: 'p', bucket, limit: 1, window_ms: 1000, count: 1, ...more },
})

t.test('in shadow every event passes unchanged, and what would be discarded is counted', async t => {
  for (const over_limit of ['discard', 'mark', { pass_one_in: 2 }]) {
    const { through, series, counters } = await throttleStage({
      mode: 'shadow',
      over_limit,
      key_field: '.app',
      annotate: true,
    })
    const events = [app('a'), app('a', 1), app('b'), app('a', 2)]
    t.same(await through(events), { passed: events.map(text), discarded: [] })
    const would = { discard: { would_discard: 2 }, mark: { would_mark: 2 } }[String(over_limit)]
    const expected = would ?? { would_sample: 1, would_discard: 1 }
    t.same(
      decisions({ series }),
      Object.fromEntries(Object.entries({ passed: 2, ...expected }).map(([name, n]) => [`${name},shadow`, n])),
    )
    t.equal(counters.discards.size, 0)
    t.same(counters.imbalance(), { events: 0, bytes: 0 })
    for (const name of ['sluice_throttle_events_total', 'sluice_throttle_buckets']) {
      for (const { read } of counters.series.get(name)!) for (const { labels } of read()) t.equal(labels.mode, 'shadow')
    }
  }
})

t.test('in shadow nothing is discarded for a lack of buckets or for its time either', async t => {
  const full = await throttleStage({ mode: 'shadow', key_field: '.app', max_keys: 1, on_max_keys: 'discard' })
  t.equal((await full.through([app('a'), app('b')])).passed.length, 2)
  t.same(decisions(full), { 'passed,shadow': 1, 'would_discard,shadow': 1 })
  const late = await throttleStage({ mode: 'shadow', time_field: '.ts', allowed_lateness: '1s', on_late: 'discard' })
  t.equal((await late.through([{ ts: 100_000 }, { ts: 1 }, { ts: 1 }])).passed.length, 3)
  t.same(decisions(late), { 'passed,shadow': 1, 'late,shadow': 2 })
})

t.test('marked events pass in their places, with the limit that they exceed', async t => {
  const { through, series, counters } = await throttleStage({ over_limit: 'mark', key_field: '.app' })
  t.same(await through([app('a'), app('a', 1), app('b'), app('a', 2), {}, { x: 1 }]), {
    passed: [
      app('a'),
      { ...app('a', 1), ...note('a') },
      app('b'),
      { ...app('a', 2), ...note('a') },
      {},
      { x: 1, ...note(null) },
    ].map(text),
    discarded: [],
  })
  t.same(decisions({ series }), { passed: 3, marked: 3 })
  t.equal(counters.discards.size, 0)
})

t.test('discarded events are annotated where they are read, whatever they were decoded from', async t => {
  const { through } = await throttleStage({ annotate: true, key_field: ['.app', '.n'] })
  t.same((await through([app('a"b'), app('a"b'), { throttle: 1 }, { throttle: 1 }])).discarded, [
    text({ ...app('a"b'), ...note('["a\\"b","0"]') }),
    text(note(null)),
  ])
  const lines = await throttleStage({ annotate: true, key_field: '.message' })
  const { passed, discarded } = await lines.through(['same', 'same'], { decode: 'text' })
  t.same(passed, ['same'])
  t.match(JSON.parse(discarded[0]!), { message: 'same', file: '/log', ...note('same') })
})

t.test('what was discarded for another reason says so, without a count that nobody knows', async t => {
  const options = { annotate: true, key_field: '.app', limit: 2, max_keys: 1, on_max_keys: 'discard' }
  const { through } = await throttleStage(options)
  const throttle = { component: 'p', bucket: 'b', limit: 2, window_ms: 1000, reason: 'max_keys' }
  const notes = (lines: string[]) => lines.map(line => JSON.parse(line).throttle)
  t.same(notes((await through([app('a'), app('b')])).discarded), [throttle])
  const { discarded } = await through([app('a'), app('a'), app('a')], { isBacklog: true })
  const known = { ...throttle, bucket: 'a', count: 2 }
  t.same(notes(discarded), [
    { ...known, reason: 'throttled_backlog' },
    { ...known, reason: 'throttled_backlog' },
  ])
  const late = await throttleStage({
    annotate: true,
    time_field: '.t',
    on_late: 'discard',
    window_mode: 'aligned',
    allowed_lateness: '1s',
  })
  const found = await late.through([3_600_000, 3_601_000, 1000].map(t => ({ t })))
  t.same(notes(found.discarded), [{ component: 'p', bucket: null, limit: 1, window_ms: 1000, reason: 'late' }])
})

t.test('the names of buckets are valid, bounded, and not those of other things', async t => {
  const { through } = await throttleStage({ annotate: true, key_field: '.app' })
  const long = 'ö'.repeat(200)
  for (const [key, name] of [
    ['\u0007\n', '\u0007\n'],
    [17, '17'],
    ['__other__', '___other__'],
    ['_mine', '_mine'],
    [long, /^ö{100}…[0-9a-f]{16}$/],
    [`${long}x`, /^ö{100}…[0-9a-f]{16}$/],
  ] as const) {
    const { discarded } = await through([app(key), app(key)])
    t.match(JSON.parse(discarded[0]!).throttle.bucket, name)
  }
})

t.test('of the events over the limit every third of a bucket passes, across windows and reloads', async t => {
  const options = { over_limit: { pass_one_in: 3 }, key_field: '.app' }
  const { through, series, time, processor, counters } = await throttleStage(options)
  const passed = async (from: typeof through, ...apps: (string | undefined)[]) =>
    (await from(apps.map(app => ({ app })))).passed.map(line => JSON.parse(line).app)
  t.same(await passed(through, 'a', 'a', 'b', 'b', 'a', 'b', undefined, undefined), ['a', 'b', undefined])
  t.same(
    await passed(through, undefined, 'a', 'b', undefined),
    ['a', 'b', undefined],
    'the third over the limit of each',
  )
  await time.advance(1000)
  t.same(await passed(through, 'a', 'a', 'a', 'a', 'a'), ['a', 'a'], 'the next window')
  t.same(decisions({ series }), { passed: 4, sampled: 4, discarded: 9 })
  t.same(counters.discards.get('throttled')?.events, 9)
  const successor = await throttleStage(options, { time, inherited: processor.handOver!()!.value })
  t.same(await passed(successor.through, 'a', 'a'), ['a'], 'the count goes on')
})

t.test('an event for which there is no bucket is neither marked nor sampled: it is not over a limit', async t => {
  for (const over_limit of ['mark', { pass_one_in: 2 }]) {
    const { through } = await throttleStage({ over_limit, key_field: '.app', max_keys: 1, on_max_keys: 'discard' })
    t.equal((await through([app('a'), app('b'), app('c')])).discarded.length, 2)
  }
})

t.test('a word that over_limit does not know is answered with all that it may be', t => {
  const yaml = `sources: { in: { type: stdin } }
processors: { lim: { type: throttle, inputs: [in], limit: 1, window: 1s, over_limit: wait } }
destinations: { out: { type: stdout, inputs: [lim] } }
`
  const message = /over_limit: must be discard, mark, \{pass_one_in: N\} with a whole number N, or \{wait: DURATION\}$/m
  t.throws(() => parseConfig(yaml, 'sluice.yaml', { env: {}, components }), { message })
  t.end()
})

t.test('the schema refuses what means nothing', t => {
  for (const options of [
    { mode: 'dry' },
    { over_limit: 'drop' },
    { over_limit: { pass_one_in: 1 } },
    { over_limit: { pass_one_in: 2, wait: '1s' } },
    { over_limit: {} },
    { annotate: 'yes' },
  ]) {
    t.notOk(throttle.options.safeParse({ limit: 1, window: '1s', ...options }).success, JSON.stringify(options))
  }
  t.end()
})

t.test('an event that is discarded for another reason than its limit is not marked', async t => {
  const full = { over_limit: 'mark', key_field: '.app', max_keys: 1, on_max_keys: 'discard' }
  const { through } = await throttleStage(full)
  t.same((await through([app('a'), app('b')])).discarded, [text(app('b'))])
  const { through: annotated } = await throttleStage({ ...full, annotate: true })
  const [line] = (await annotated([app('a'), app('b')])).discarded
  t.match(JSON.parse(line!), { ...app('b'), throttle: { bucket: 'b', limit: 1, reason: 'max_keys' } })
})

t.test('an event that is larger than a whole quota is told the length of its period', async t => {
  for (const time_field of [undefined, '.t']) {
    const options = { annotate: true, limit: undefined, window: undefined, time_field }
    const { through } = await throttleStage({ ...options, quota: { limit_bytes: 5, per: 'hour' } })
    const [line] = (await through([{ t: 0 }])).discarded
    t.match(JSON.parse(line!).throttle, { limit: 5, unit: 'bytes', window_ms: 3_600_000, count: 0 })
  }
})
