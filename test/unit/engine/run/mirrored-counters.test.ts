import { pino } from 'pino'
import t from 'tap'
import { type ComponentCounters, ComponentSet, GIVEN_BACK } from '../../../../src/engine/flow/counters.js'
import { snapshotOf } from '../../../../src/engine/run/measure/counter-snapshot.js'
import { Metrics } from '../../../../src/engine/run/measure/metrics.js'
import { MirroredCounters } from '../../../../src/engine/run/measure/mirrored-counters.js'
import { longTest } from '../../../support/long-test.js'

t.test('counters never go back when what counts ends and another one starts, and add up', async t => {
  const [shown, first, second] = [new ComponentSet(), new ComponentSet(), new ComponentSet()]
  const mirrors = new MirroredCounters(shown)
  const refresh = async () => {}
  const count = (all: ComponentSet, arrived: number, sent: number) => {
    const counters = all.component('p/out', 'destination', 'http')
    counters.arrived(arrived, 10 * arrived)
    counters.took(sent, 10 * sent)
    counters.sent(sent, 10 * sent)
    counters.counter('sluice_x_total', 'X.', { a: '1' }).value += sent
    counters.histogram('sluice_h', 'H.', [1, 5]).observe(3)
    if (!counters.series.has('sluice_g')) counters.gauge('sluice_g', 'G.', () => arrived)
    counters.failed('oops')
    return structuredClone(snapshotOf(counters))
  }
  mirrors.show([count(first, 5, 3)], refresh)
  const counters = shown.component('p/out', 'destination', 'http')
  const series = (name: string) => [...counters.series.get(name)!.flatMap(one => [...one.read()])]
  t.same([counters.received.events, counters.passed.events, counters.inFlight().events], [5, 3, 2])
  t.same(series('sluice_g'), [{ labels: {}, value: 5 }])
  mirrors.ended(id => id === 'p/other')
  t.equal(counters.inFlight().events, 2)
  mirrors.ended(id => id === 'p/out')
  t.same(counters.imbalance(), { events: 0, bytes: 0 })
  t.same(counters.discards.get(GIVEN_BACK), { events: 2, bytes: 20 }, 'what was in it went back to its sender')
  t.notOk(counters.series.has('sluice_g'), 'a gauge is of what has ended')
  t.equal(counters.beforeScrape, undefined)
  mirrors.show([count(second, 4, 4)], refresh)
  t.same([counters.received.events, counters.passed.events, counters.inFlight().events], [9, 7, 0])
  t.same(counters.imbalance(), { events: 0, bytes: 0 })
  t.same(series('sluice_x_total'), [{ labels: { a: '1' }, value: 7 }])
  t.same(counters.histograms.get('sluice_h')!.counts, [0, 2, 0])
  t.equal(counters.failures.get('oops'), 2)
  mirrors.forget(id => id === 'p/out')
  mirrors.show([count(second, 1, 1)], refresh)
  t.equal(counters.passed.events, 12, 'a new mirror does not know what was shown before')
})

t.test('a component counts on where it moved to', async t => {
  const [here, there] = [new ComponentSet(), new ComponentSet()]
  const mirrors = new MirroredCounters(here)
  const counters = here.component('limit', 'processor', 'filter')
  const moved = there.component('limit', 'processor', 'filter')
  const work = (all: typeof counters, events: number) => {
    all.arrived(events, events)
    all.took(events, events)
    all.sent(events, events)
    all.counter('sluice_x_total', 'X.').value += events
  }
  work(counters, 2)
  counters.arrived(1, 1)
  counters.retire()
  work(moved, 3)
  mirrors.show([snapshotOf(moved)], async () => {})
  work(moved, 4)
  mirrors.show([snapshotOf(moved)], async () => {})
  work(counters, 5)
  t.equal(counters.passed.events, 14)
  t.equal(counters.discards.get(GIVEN_BACK)?.events, 1, 'what it held before it moved')
  t.same(
    counters.series.get('sluice_x_total')!.flatMap(one => [...one.read()].map(({ value }) => value)),
    [14],
  )
  t.same(counters.imbalance(), { events: 0, bytes: 0 })
})

longTest('the series of a group are bounded: what is beyond is counted together, and the sums are exact', async t => {
  const shown = new Metrics(pino({ level: 'silent' }))
  const full: string[] = []
  const bounds = { group: 400, all: 700, full: (group: string) => void full.push(group) }
  const mirrors = new MirroredCounters(shown, bounds)
  const empty = String(await shown.render()).split('\n').length
  let [arrived, sent, thrown, keyed, plain] = [0, 0, 0, 0, 0]
  /** A process with components, which count more each time. */
  const begin = (group: string, components: number) => {
    const all = new ComponentSet()
    const each = (work: (counters: ComponentCounters, n: number) => void) => {
      for (let n = 0; n < components; n++) work(all.component(`${group}/${n}`, 'processor', 'x'), n)
      mirrors.show(JSON.parse(JSON.stringify([...all.components.values()].map(snapshotOf))), async () => {}, group)
    }
    const keys = new Map<ComponentCounters, number>()
    return () =>
      each((counters, n) => {
        counters.arrived(10, 100)
        counters.took(7, 70)
        counters.sent(4, 40)
        counters.sent(1, 10, 'side')
        counters.discarded(`reason ${n}`, 2, 20)
        counters.failed('oops')
        counters.counter('sluice_plain_total', '', { decision: 'a' }).value++
        counters.histogram('sluice_h', '', [1, 2]).observe(1)
        counters.gauges(`sluice_g${n}`, '', () => [{ labels: { file: 'f'.repeat(2000) }, value: 1 }])
        keys.set(counters, (keys.get(counters) ?? 0) + 1)
        counters.counters('sluice_keys_total', '', { key: '__other__' }, () =>
          Array.from({ length: 5 }, (_, key) => ({ labels: { key: `${key}` }, value: keys.get(counters)! })),
        )
        ;[arrived, sent, thrown, plain, keyed] = [arrived + 10, sent + 5, thrown + 2, plain + 1, keyed + 5]
      })
  }
  let undelivered = 0
  const check = async (what: string, lines = bounds.all + 60) => {
    const text = String(await shown.render())
    const total = (name: string) =>
      [...text.matchAll(new RegExp(`^${name}\\{.*\\} (\\S+)$`, 'gm'))].reduce(
        (sum, [, value]) => sum + Number(value),
        0,
      )
    t.ok(text.split('\n').length - empty < lines, `${what}: ${text.split('\n').length - empty} lines`)
    t.equal(total('sluice_component_received_events_total'), arrived, what)
    t.equal(total('sluice_component_sent_events_total'), sent, what)
    t.equal(total('sluice_component_discarded_events_total'), thrown + undelivered, what)
    t.equal(total('sluice_plain_total'), plain, what)
    t.equal(total('sluice_keys_total'), keyed, what)
    t.ok(shown.checkConservation(), what)
    return text
  }
  const first = begin('a', 100)
  first()
  first()
  t.match(
    await check('one group', bounds.group + 60),
    /^sluice_keys_total\{component_id="__other__\/processor",key="__other__"\}/m,
  )
  t.equal(mirrors.folded, 100 - shown.components.size + 1)
  t.same([...new Set(full)], ['a'])
  const second = begin('b', 30)
  second()
  first()
  await check('two groups')
  mirrors.ended(id => id.startsWith('a/'))
  undelivered += 100 * 3 * 3
  await check('one has ended')
  const third = begin('c', 30)
  for (let n = 0; n < 3; n++) {
    third()
    second()
  }
  const text = await check('another one takes its place')
  t.notMatch(text, /component_id="a\//, 'what has ended goes first')
  t.match(text, /component_id="c\/9"/)
  const huge = JSON.parse(JSON.stringify(snapshotOf(new ComponentSet().component('', 'source', 'x'))))
  const many = Array.from({ length: 20_001 }, (_, n) => ({ ...huge, id: `d/${n}` }))
  t.throws(() => mirrors.show(many, async () => {}, 'd'), /more than 20000 components/)
  for (const group of ['a', 'b', 'c', 'd']) {
    mirrors.ended(id => id.startsWith(`${group}/`))
    mirrors.forget(id => id.startsWith(`${group}/`))
  }
  t.equal(mirrors.folded, 0)
})
