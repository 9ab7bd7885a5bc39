import t from 'tap'
import { ComponentSet, GIVEN_BACK } from '../../../../src/engine/flow/counters.js'
import { snapshotOf } from '../../../../src/engine/run/measure/counter-snapshot.js'
import { MirroredCounters } from '../../../../src/engine/run/measure/mirrored-counters.js'

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
