import { pino } from 'pino'
import t from 'tap'
import { throttle } from '../../../../src/components/processors/throttle.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { parseOptions } from '../../../../src/engine/config/parse-options.js'
import { ComponentCounters } from '../../../../src/engine/flow/counters.js'
import { createThrottle } from '../../../../src/index.js'
import { after } from '../../../../src/lib/time.js'
import { batchOf, linesOf } from '../../../support/batches.js'
import { problemsFrom } from '../../../support/facts.js'
import { settle } from '../../../support/manual-time.js'
import { loadedStageOf } from '../../../support/stage.js'

const NOW = 1_700_000_000_000

/** A throttle in event time by itself, with counters as the daemon has them. */
async function throttleOf(options: object, counters = new ComponentCounters('t', 'processor', 'throttle')) {
  const time = { now: 0 }
  const logged: string[] = []
  const log = pino({ level: 'warn' }, { write: (line: string) => void logged.push(line) })
  const clock = { now: () => time.now, wall: () => time.now + NOW, after }
  const all = { limit: 1, window: '1s', time_field: '.t', ...options }
  const { stage, wanted } = await loadedStageOf(throttle, all, { counters, clock, log })
  const origin = batchOf([], { wanted }).origin
  const through = async (...lines: (string | object)[]) => {
    const batch = Object.assign(batchOf(lines, { wanted, receivedAt: NOW + time.now }), { origin })
    counters.arrived(batch.length, batch.bytes)
    stage.write(batch)
    await settle()
    const left = stage.read() as EventBatch | null
    left?.ack.settle('delivered')
    return left ? linesOf(left).map(line => (line.startsWith('{') ? (JSON.parse(line) as { t: unknown }).t : line)) : []
  }
  const series = (name: string) =>
    Object.fromEntries(
      (counters.series.get(name) ?? []).flatMap(({ read }) =>
        [...read()].map(({ labels, value }) => [labels.decision ?? labels.reason ?? '', value]),
      ),
    )
  return { time, counters, through, series, logged }
}

const at = (...times: unknown[]) => times.map(t => ({ t }))

t.test('every event is counted: what is late, too, and whatever has no time', async t => {
  const lines = [...at(NOW - 90_000, NOW - 90_000, NOW - 60_000, NOW - 91_500, 'x', NOW + 20_000, NOW - 90_500), 'text']
  for (const [on_late, left, decisions, reasons] of [
    [
      'pass',
      [NOW - 90_000, NOW - 60_000, NOW - 91_500, 'x', NOW - 90_500],
      { passed: 3, late: 2, discarded: 3 },
      { throttled: 3 },
    ],
    ['discard', [NOW - 90_000, NOW - 60_000, 'x'], { passed: 3, late: 2, discarded: 3 }, { throttled: 3, late: 2 }],
  ] as const) {
    const { through, series, counters } = await throttleOf({ on_late, allowed_lateness: '10s' })
    t.same(await through(...lines), left, on_late)
    t.same(series('sluice_throttle_events_total'), { excluded: 0, fail_open: 0, ...decisions }, on_late)
    t.same(series('sluice_throttle_untimed_events_total'), { unreadable: 2, ahead: 1 })
    t.same(Object.fromEntries([...counters.discards].map(([reason, { events }]) => [reason, events])), reasons)
    t.same(counters.imbalance(), { events: 0, bytes: 0 })
  }
})

t.test('its gauges', async t => {
  const { through, series, time } = await throttleOf({ key_field: '.t', allowed_lateness: '10s', window: '10s' })
  await through(...at(NOW - 30_000, NOW - 29_999, NOW - 29_000))
  t.same(series('sluice_throttle_buckets'), { '': 3 })
  t.same(series('sluice_throttle_kept_windows'), { '': 0 })
  await through(...at(NOW, NOW))
  await through(...at(NOW))
  t.same(series('sluice_throttle_buckets'), { '': 4 }, 'what was used lately stays for a while')
  time.now = 3_600_000 + 20_000
  t.same(series('sluice_throttle_buckets'), { '': 0 }, 'after a long silence nothing is left')
  const kept = await throttleOf({ allowed_lateness: '3s' })
  await kept.through(...at(NOW - 4000, NOW - 3000, NOW - 2000, NOW - 1000))
  t.same(kept.series('sluice_throttle_kept_windows'), { '': 3 })
  t.same(kept.series('sluice_throttle_forgotten_windows_total'), { '': 0 })
})

t.test('on the clock none of these series is there', async t => {
  const { through, series } = await throttleOf({ time_field: undefined })
  await through(...at(1, 2))
  t.same(series('sluice_throttle_events_total'), { passed: 1, excluded: 0, discarded: 1, fail_open: 0 })
  for (const name of ['untimed_events_total', 'kept_windows', 'forgotten_windows_total'])
    t.same(series(`sluice_throttle_${name}`), {})
})

t.test('times that look like seconds are told once', async t => {
  const { through, logged } = await throttleOf({})
  await through(...at(1_690_000_000, 1_690_000_001))
  await through(...at(1_690_000_002))
  t.equal(logged.length, 1)
  t.match(JSON.parse(logged[0]!), { field: '.t', msg: /look like seconds/ })
  const right = await throttleOf({})
  await right.through(...at(1_690_000_000_000, 'x'))
  await right.through(...at('x'))
  t.same(right.logged, [])
})

t.test('allowed_lateness and on_late have no use by themselves', async t => {
  const faults = (options: object) => {
    const parsed = parseOptions(throttle.options, { limit: 1, window: '1s', ...options })
    return 'faults' in parsed ? parsed.faults.map(({ path, message }) => `${path}: ${message}`) : []
  }
  const unused = (name: string) => `${name}: has no effect without time_field`
  t.same(faults({ allowed_lateness: '1m' }), [unused('allowed_lateness')])
  t.same(faults({ on_late: 'discard', allowed_lateness: '0s' }), [unused('allowed_lateness'), unused('on_late')])
  t.same(faults({ on_late: 'discard', allowed_lateness: '0s', time_field: '.t' }), [])
  t.same(faults({ time_field: '.t' }), [])
  t.equal(faults({ time_field: 't' }).length, 1)
  t.equal(faults({ time_field: '' }).length, 1)
  t.equal(faults({ time_field: '.t', on_late: 'drop' }).length, 1)
})

t.test('as a stream of objects: a Date is a time', async t => {
  const stream = createThrottle({ limit: 1, window: '1s', time_field: '.at', allowed_lateness: '5s' })
  const start = Date.now() - 3_600_000
  const passed: number[] = []
  stream.on('data', ({ n }: { n: number }) => passed.push(n))
  for (const [n, ms] of [0, 500, 1000, 20_000, 100, 999].entries()) stream.write({ n, at: new Date(start + ms) })
  stream.write({ n: 6 })
  stream.write(`{"n":7,"at":${start + 20_999}}`)
  stream.end()
  await new Promise(resolve => stream.on('end', resolve))
  t.same(passed, [0, 2, 3, 4, 5, 6])
  t.match(stream.stats, { received: 8, passed: 4, late: 2, discarded: 2, fail_open: 0, excluded: 0 })
})

t.test('forgotten windows are counted on where another throttle takes its place', async t => {
  const options = { allowed_lateness: '10 Hours' }
  const forgotten = 'sluice_throttle_forgotten_windows_total'
  const before = await throttleOf(options)
  await before.through(...Array.from({ length: 5000 }, (_, i) => ({ t: NOW - (5000 - i) * 1000 })))
  const counted = before.series(forgotten)['']!
  t.ok(counted > 0)
  before.counters.retire()
  const next = await throttleOf(options, before.counters)
  await next.through({ t: NOW })
  t.equal(next.series(forgotten)[''], counted)
})

t.test('a key is late while most of its last events are, not if a few are', async t => {
  const { through, series, logged, counters } = await throttleOf({ key_field: '.k', allowed_lateness: '1s' })
  const events = (k: string, t: number, length: number) => Array.from({ length }, () => ({ k, t: NOW + t }))
  const late = () => series('sluice_throttle_late_keys')['']
  await through(...events('a', -1000, 5), ...events('b', -1000, 5))
  await through(...events('a', -100_000, 19), ...events('b', -100_000, 5))
  t.equal(late(), 0)
  await through(...events('a', -1000, 1), ...events('a', -99_000, 2))
  t.equal(late(), 1, 'one that is in time changes little')
  t.match(problemsFrom(counters), [{ what: /: most events of 1 key are late$/, todo: /^With on_late: pass/ }])
  t.equal(logged.length, 1)
  t.match(logged[0], /"code":"SLUICE_EVENTS_LATE","bucket":"a"/)
  await through(...events('a', -90_000, 30_000), ...events('b', 0, 5))
  for (let n = 0; n < 50; n++) await through(...events('a', 0, 10_000 / 50))
  t.equal(late(), 1, 'few of many events are inspected')
  for (let n = 0; n < 200; n++) await through(...events('a', 0, 4000))
  t.equal(late(), 0)
  t.equal(logged.length, 1)
})
