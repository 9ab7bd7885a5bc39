import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import t from 'tap'
import { aggregate } from '../../../../src/components/processors/aggregate.js'
import type { AckStatus } from '../../../../src/core/event/ack.js'
import { ComponentSet } from '../../../../src/engine/flow/counters.js'
import { batchOf, collectLines, linesOf } from '../../../support/batches.js'
import { ManualTime, settle } from '../../../support/manual-time.js'
import { loadedStageOf } from '../../../support/stage.js'
import { valuesOf } from '../../../support/values-of.js'

const OPTIONS = { every: '1 Seconds', key_field: '.app', counters: { n: {}, sum: { sum: '.v' } }, max_keys: 3 }

async function running(options: object, more: Parameters<typeof loadedStageOf>[2] = {}) {
  const clock = new ManualTime()
  const made = await loadedStageOf(aggregate, options, { clock, ...more })
  const { stage, wanted, counters } = made
  const settled: AckStatus[] = []
  const freed: number[] = []
  await stage.start(new AbortController().signal)
  const send = async (...events: object[]) => {
    const batch = batchOf(events, { wanted, onSettled: s => settled.push(s), onShrink: bytes => freed.push(bytes) })
    counters.arrived(batch.length, batch.bytes)
    stage.write(batch)
    await settle()
  }
  const next = async () => {
    await clock.advance(1000)
    await settle()
    const left = stage.read()
    if (!left) return []
    const events = linesOf(left).map(line => JSON.parse(line) as Record<string, unknown>)
    left.ack.settle('delivered')
    return events
  }
  const series = (name: string) =>
    Object.fromEntries(
      [...counters.series.get(name)!.flatMap(({ read }) => [...read()])].map(({ labels, value }) => [
        [labels.key, labels.le].filter(label => label !== undefined).join(' '),
        value,
      ]),
    )
  return { ...made, clock, settled, freed, send, next, series }
}

t.test('an event for each key and interval, and series that go on', async t => {
  const { send, next, series, settled, counters, freed } = await running(OPTIONS)
  await send({ app: 'a', v: 1 }, { app: 'b', v: '2.5' }, { app: 'a', v: 'x' }, { v: 3 })
  await send({ app: 'a', v: -1 })
  t.same(settled, [], 'acknowledged when they are delivered')
  t.equal(freed.length, 2, 'their memory is free at once')
  t.same(series('sluice_aggregate_n_total'), { a: 3, b: 1, '': 1 })
  const interval_ms = 1000
  t.same(await next(), [
    { key: null, interval_ms, n: 1, sum: 3 },
    { key: 'a', interval_ms, n: 3, sum: 0 },
    { key: 'b', interval_ms, n: 1, sum: 2.5 },
  ])
  t.same(settled, ['delivered', 'delivered'])
  t.same(await next(), [])
  await send({ app: 'a' })
  t.same(await next(), [{ key: 'a', interval_ms, n: 1, sum: 0 }])
  t.same(series('sluice_aggregate_n_total'), { a: 4, b: 1, '': 1 })
  t.same(counters.imbalance(), { events: 0, bytes: 0 })
})

t.test('texts that no label can have share a series, and long ones have one each', async t => {
  const { send, next, series } = await running(OPTIONS)
  await send({ app: '\ud800' }, { app: '\ud801' }, { app: '\ud800' })
  await send(...['x', 'y'].map(last => ({ app: 'a'.repeat(300) + last })))
  const names = Object.keys(series('sluice_aggregate_n_total'))
  t.match(names, ['\ufffd', /^a{200}…/, /^a{200}…/])
  t.not(names[1], names[2])
  t.match(await next(), [
    { key: '\ufffd', n: 3 },
    { key: names[1], n: 1 },
    { key: names[2], n: 1 },
  ])
})

t.test('keys without room for their series are part of the others, exactly', async t => {
  // Each key has two.
  const all = new ComponentSet(5)
  const counters = all.component('p', 'processor', 'aggregate')
  const { send, next, series } = await running({ ...OPTIONS, max_keys: 10 }, { counters })
  const shown = () => [series('sluice_aggregate_n_total'), series('sluice_aggregate_sum_total')]
  await send({ app: 'a', v: 1 }, { app: 'b', v: 2 }, { app: 'c', v: 3 }, { app: 'd', v: 4 })
  t.same(shown(), [
    { a: 1, b: 1, __other__: 2 },
    { a: 1, b: 2, __other__: 7 },
  ])
  t.same(valuesOf(await next(), 'key'), ['a', 'b', 'c', 'd'], 'events have all keys')
  await send({ app: 'b' }, { app: 'c' })
  t.same(valuesOf(await next(), 'key'), ['b', 'c'])
  t.same(shown()[0], { b: 2, __other__: 4 }, 'one that was idle makes room, and one without series stays without')
  await send({ app: 'e' }, { app: 'c' })
  t.same(shown()[0], { b: 2, e: 1, __other__: 5 })
  all.end('p')
  t.same(
    counters.series.get('sluice_aggregate_n_total')!.flatMap(({ read }) => [...read()]),
    [{ labels: { key: '__other__' }, value: 8 }],
  )
  t.ok(all.component('q', 'processor', 'aggregate').takeSeries(5), 'its room is free')
})

t.test('negative numbers are in the sums of events, and do not make a series fall', async t => {
  const { send, next, series, counters } = await running(OPTIONS)
  await send({ app: 'a', v: 5 }, { app: 'a', v: -7 })
  t.match(await next(), [{ key: 'a', n: 2, sum: -2 }])
  t.same(series('sluice_aggregate_sum_total'), { a: 5 })
  await send({ app: 'a', v: -1 }, { app: 'a', v: 2 })
  t.match(await next(), [{ key: 'a', sum: 1 }])
  t.same(series('sluice_aggregate_sum_total'), { a: 7 })
  const negative = counters.series.get('sluice_negative_values_total')!.flatMap(({ read }) => [...read()])
  t.same(negative, [{ labels: { counter: 'sum' }, value: 2 }])
})

t.test('keys beyond max_keys count together, idle ones make room, and all sums are exact', async t => {
  const { send, next, series } = await running(OPTIONS)
  const total = () => Object.values(series('sluice_aggregate_n_total')).reduce((a, b) => a + b, 0)
  await send(...['a', 'b', 'c', 'd', 'e', 'a'].map(app => ({ app })))
  t.match(await next(), [{ key: 'a', n: 2 }, { key: 'b' }, { key: 'c' }, { key: '__other__', n: 2 }])
  await send({ app: 'c' }, { app: 'd' })
  t.match(await next(), [{ key: 'c' }, { key: '__other__', n: 1 }])
  await send({ app: 'd' }, { app: '__other__' })
  t.match(await next(), [
    { key: 'd', n: 1 },
    { key: '___other__', n: 1 },
  ])
  t.equal(total(), 10)
  t.same(series('sluice_aggregate_n_total'), { __other__: 8, d: 1, ___other__: 1 })
})

t.test('no line makes a sum infinite', async t => {
  const { send, next } = await running(OPTIONS)
  await send({ v: 1e308 }, { v: 1e308 }, { v: '1e999' }, { v: -1e308 }, { v: 2 })
  t.match(await next(), [{ n: 5, sum: 2 }])
})

t.test('histograms, conditions, and the time of an interval', async t => {
  const { send, next, series } = await running({
    every: '1 Seconds',
    counters: { slow: { when: 'if (.ms greater 9)' } },
    histograms: { took: { field: '.ms', buckets: [10, 100], when: 'if (.kind equal 1)' } },
    time_field: '.at',
  })
  await send(...[3, 10, 11, 500, 'x'].map(ms => ({ ms, kind: 1 })), { ms: 7, kind: 2 })
  const took = { count: 4, sum: 524, buckets: { 10: 2, 100: 3, '+Inf': 4 } }
  const [event] = await next()
  t.same({ ...event, at: '' }, { key: null, interval_ms: 1000, slow: 3, took, at: '' })
  t.match(event!.at, /^\d{4}-.*Z$/)
  t.same(series('sluice_aggregate_took_bucket'), { ' 10': 2, ' 100': 3, ' +Inf': 4 })
  t.same(series('sluice_aggregate_took_count'), { '': 4 })
  t.same(series('sluice_aggregate_took_sum'), { '': 524 })
})

t.test('the open interval ends with the run, and passes to a successor at a reload', async t => {
  const first = await running(OPTIONS)
  await first.send({ app: 'a', v: 1 })
  first.stage.isReplaced = true
  first.stage.resume()
  first.stage.end()
  await settle()
  t.same(first.settled, [])
  const { value: inherited } = first.processor.handOver!()!
  const second = await running(OPTIONS, { inherited })
  await second.send({ app: 'a', v: 1 })
  const out: string[] = []
  second.stage.end()
  await pipeline(Readable.from(second.stage), collectLines(out))
  t.match(
    out.map(line => JSON.parse(line)),
    [{ key: 'a', n: 2, sum: 2 }],
  )
  t.same([...first.settled, ...second.settled], ['delivered', 'delivered'])
})

t.test('an interval that the end of the run cuts short is a whole number of milliseconds', async t => {
  const { stage, send, clock } = await running(OPTIONS)
  await send({ app: 'a' })
  await clock.advance(200.4)
  const out: string[] = []
  stage.end()
  await pipeline(Readable.from(stage), collectLines(out))
  t.match(JSON.parse(out[0]!), { key: 'a', interval_ms: 200 })
})

t.test('an interval that a full output makes longer or shorter has its true length', async t => {
  const { stage, send, clock } = await running(OPTIONS)
  const read = () => JSON.parse(linesOf(stage.read())[0]!).interval_ms
  for (let i = 0; i < stage.readableHighWaterMark; i++) {
    await send({ app: 'a' })
    await clock.advance(1000)
  }
  await send({ app: 'a' })
  await clock.advance(2600)
  t.same([read(), read()], [1000, 1000])
  await settle()
  await send({ app: 'a' })
  await clock.advance(400)
  await send({ app: 'a' })
  await clock.advance(1000)
  t.same([read(), read(), read()], [2600, 400, 1000])
})

t.test('an interval whose timer is slightly late has the usual length', async t => {
  const { stage, send, clock } = await running(OPTIONS)
  await send({ app: 'a' })
  const { now } = clock
  clock.now = () => now.call(clock) + 20
  await clock.advance(1000)
  t.match(JSON.parse(linesOf(stage.read())[0]!), { key: 'a', interval_ms: 1000 })
})

t.test('options that make no sense are refused', t => {
  const wrong = (options: object) =>
    aggregate.options.safeParse(options).error?.issues.map(({ path }) => path.join('.'))
  t.same(wrong({}), ['counters'])
  t.same(wrong({ counters: { key: {} } }), ['counters.key'])
  t.same(wrong({ counters: { n: {} }, histograms: { n: { field: '.a', buckets: [1] } } }), ['histograms.n'])
  t.same(wrong({ histograms: { n: { field: '.a', buckets: [2, 1] } } }), ['histograms.n.buckets'])
  t.same(wrong({ counters: { n: {} }, time_field: '.a.b' }), ['time_field'])
  t.match(wrong({ counters: { 'a-b': {} } }), [/counters/])
  t.end()
})
