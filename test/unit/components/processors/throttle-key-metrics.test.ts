import t from 'tap'
import { ComponentSet } from '../../../../src/engine/flow/counters.js'
import { snapshotOf } from '../../../../src/engine/run/measure/counter-snapshot.js'
import { MirroredCounters } from '../../../../src/engine/run/measure/mirrored-counters.js'
import { seeded } from '../../../support/seeded.js'
import { throttleStage } from '../../../support/throttle-stage.js'

const NAME = 'sluice_throttle_key_discarded_events_total'
const app = (app: unknown) => ({ app })
const times = (n: number, key: unknown) => Array.from({ length: n }, () => app(key))
const options = (top: number, more: object = {}) => ({ key_field: '.app', per_key_metrics: { top }, ...more })
const sum = (values: Record<string, number>) => Object.values(values).reduce((all, value) => all + value, 0)

t.test('the heaviest keys have series with all their events, if there are few', async t => {
  const { through, series } = await throttleStage(options(2))
  t.same(series(NAME), { 'key=__other__': 0 })
  await through([...times(3, 'b'), ...times(9, 'a'), ...times(2, 'c')])
  t.same(series(NAME), { 'key=a': 8, 'key=b': 2, 'key=__other__': 1 })
  await through([...times(1, 'a'), ...times(5, 'c')])
  t.same(series(NAME), { 'key=a': 9, 'key=b': 2, 'key=__other__': 6 }, 'c is heavier, but not for long')
  t.same(series('sluice_throttle_key_error_events'), { '': 0 })
})

t.test(
  'a key that becomes heavy gets a series for what comes from then on; what it replaces goes to the rest',
  async t => {
    const { through, series, time } = await throttleStage(options(1, { window: '1 Hours' }))
    await through(times(11, 'a'))
    await through(times(4, 'b'))
    t.same(series(NAME), { 'key=a': 10, 'key=__other__': 3 })
    await through(times(20, 'b'))
    await time.advance(10_000)
    t.same(series(NAME), { 'key=b': 20, 'key=__other__': 13 }, 'three were shown as others before')
    t.same(series('sluice_throttle_key_error_events'), { '': 3 })
    await through(times(40, 'a'))
    await time.advance(10_000)
    t.same(series(NAME), { 'key=a': 40, 'key=__other__': 33 }, 'a key that comes back begins again')
  },
)

t.test('the sum is exact in every scrape, and no series decreases while it is there', async t => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = seeded(seed)
    const { through, series, time, counters } = await throttleStage(
      options(1 + (seed % 5), { window: '1 Hours', on_max_keys: 'discard', max_keys: 30 }),
    )
    let last: Record<string, number> = {}
    for (let round = 0; round < 40; round++) {
      const shift = round < 20 ? 0 : 50
      await through(Array.from({ length: 100 }, () => app(`k${shift + Math.floor(random() ** 2 * 60)}`)))
      await time.advance(random() * 5000)
      if (random() < 0.3) continue
      const now = series(NAME)
      const discarded = [...counters.discards.values()].reduce((all, { events }) => all + events, 0)
      if (sum(now) !== discarded) t.fail(`seed ${seed}: ${sum(now)} and not ${discarded}`)
      for (const [key, value] of Object.entries(now))
        if (value < (last[key] ?? 0)) t.fail(`seed ${seed}: ${key} decreased`)
      last = now
    }
    t.ok(Object.keys(last).length > 1)
  }
})

t.test('labels are bounded and unlike those of other things', async t => {
  const { through, series } = await throttleStage(options(9))
  const long = 'ö'.repeat(500)
  for (const key of ['__other__', '___other__', '__default__', long, `${long}1`, 'a\n"\\', undefined, '']) {
    await through(times(2, key))
  }
  const keys = Object.keys(series(NAME)).map(label => label.slice('key='.length))
  t.same(new Set(keys).size, 8)
  for (const key of keys) t.ok(Buffer.byteLength(key) <= 256 && key.isWellFormed())
  t.same(
    new Set(keys.filter(key => !key.startsWith('ö'))),
    new Set(['___other__', '____other__', '___default__', 'a\n"\\', '__default__', '__other__']),
  )
  t.equal(series(NAME)['key=__default__'], 3, 'the second to fourth event without a key')
})

t.test('series go on after a reload, and those of other options begin again with the same sum', async t => {
  const first = await throttleStage(options(2))
  await first.through([...times(3, 'a'), ...times(5, 'b')])
  t.same(first.series(NAME), { 'key=b': 4, 'key=a': 2, 'key=__other__': 0 })
  await first.through(times(1, 'a'))
  const { time, counters } = first
  const inherited = first.processor.handOver!()!.value
  await first.processor.stop!(AbortSignal.abort())
  counters.retire()
  t.same(first.series(NAME), { 'key=b': 4, 'key=a': 3, 'key=__other__': 0 }, 'while there is none')
  const second = await throttleStage(options(2), { time, counters, inherited })
  await second.through(times(1, 'b'))
  t.same(second.series(NAME), { 'key=b': 5, 'key=a': 3, 'key=__other__': 0 })
  await second.processor.stop!(AbortSignal.abort())
  t.same(second.series(NAME), { 'key=__other__': 8 })
  const third = await throttleStage(options(3), { time, counters })
  await third.through(times(3, 'b'))
  t.same(third.series(NAME), { 'key=b': 2, 'key=__other__': 8 })
})

t.test('in shadow the series are of what would be discarded', async t => {
  const { through, series } = await throttleStage(options(2, { mode: 'shadow' }))
  await through(times(3, 'a'))
  t.same(series(NAME), { 'key=a,mode=shadow': 2, 'key=__other__,mode=shadow': 0 })
})

t.test('series of another process come and go with it, and the sum stays', async t => {
  const shown = new ComponentSet()
  const mirrors = new MirroredCounters(shown)
  const visible = () => {
    const all = shown.component('p', 'processor', 'throttle').series.get(NAME) ?? []
    return Object.fromEntries(all.flatMap(({ read }) => [...read()].map(({ labels, value }) => [labels.key, value])))
  }
  for (const [key, expected] of [
    ['a', { a: 2, __other__: 0 }],
    ['b', { b: 2, __other__: 2 }],
  ] as const) {
    const { through, counters } = await throttleStage(options(1))
    await through(times(3, key))
    mirrors.show([structuredClone(snapshotOf(counters))], async () => {})
    t.same(visible(), expected)
    mirrors.ended()
  }
  t.same(visible(), { __other__: 4 })
})
