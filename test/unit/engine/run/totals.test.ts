import t from 'tap'
import type { Kind } from '../../../../src/core/component.js'
import { ComponentCounters } from '../../../../src/engine/flow/counters.js'
import { noteHeld, type TotalsOf, totalsOf } from '../../../../src/engine/run/measure/totals.js'
import { casesOf } from '../../../support/cases.js'

/** A component and what it counted: [received, sent, discarded by reason]; what is missing is in flight. */
type Row = readonly [kind: Kind, id: string, inputs: string[], received: number, sent: number, Record<string, number>?]

interface Case {
  readonly title: string
  readonly rows: readonly Row[]
  readonly totals: object
  /** It has no other totals. */
  readonly exact?: boolean
}

const COPYING = { copies: true }

function totals(rows: readonly Row[], heldBefore: Record<string, number> = {}, found: Record<string, number> = {}) {
  const components = new Map<string, ComponentCounters>()
  let underWay = 0
  for (const [kind, id, , received, sent, discards = {}] of rows) {
    const counters = new ComponentCounters(id, kind, 'x')
    counters.found(found[id] ?? 0, 0)
    counters.queued.events += found[id] ?? 0
    counters.arrived(received - (found[id] ?? 0), 0)
    counters.took(sent, 0)
    counters.sent(sent, 0)
    for (const [reason, events] of Object.entries(discards)) {
      counters.took(events, 0)
      counters.discarded(reason, events, 0)
    }
    underWay += counters.inFlight().events
    components.set(id, counters)
  }
  const of = (wanted: Kind) =>
    rows
      .filter(([kind]) => kind === wanted)
      .map(([, id, inputs]) => ({ id, inputs, ...(id === 'copying' && { plan: COPYING }) }))
  const config = { processors: of('processor'), destinations: of('destination') } as unknown as TotalsOf
  return totalsOf(config, { components, heldBefore: new Map(Object.entries(heldBefore)), underWay })
}

for (const { title, rows, totals: expected, exact } of casesOf<Case[]>(import.meta.url, 'cases'))
  t.test(title, async t => t[exact ? 'same' : 'match'](totals(rows), expected))

t.test('what a buffer held from an earlier run belongs to that run', async t => {
  const rows = (sent: number): Row[] => [
    ['source', 'in', [], 10, 10],
    ['destination', 'a', ['in'], 60, sent],
  ]
  t.match(totals(rows(20), { a: 50 }), { received: 10, passed: 0, delivered: { a: 20 }, undelivered: 10 })
  t.match(totals(rows(55), { a: 50 }), { received: 10, passed: 5, delivered: { a: 55 }, undelivered: 5 })
})

t.test('what a buffer held from an earlier run belongs to that run under its new id, too', t => {
  const heldBefore = new Map<string, number>()
  const components = new Map(['a', 'b'].map(id => [id, new ComponentCounters(id, 'destination', 'x')]))
  const note = (...destinations: object[]) => noteHeld(heldBefore, { destinations } as never, components)
  const [a, b] = [components.get('a')!, components.get('b')!]
  a.queued.events = 50
  note({ id: 'a' })
  a.sent(20, 0)
  note({ id: 'b', renamedFrom: 'a' })
  t.same([...heldBefore], [['b', 30]])
  b.discarded('buffer_corrupt', 5, 0)
  note({ id: 'a', renamedFrom: 'b' })
  t.same([...heldBefore], [['a', 45]], 'the 20 of the first time, and 25 that are left')
  note({ id: 'a', renamedFrom: 'b' })
  t.same([...heldBefore], [['a', 45]])
  t.end()
})

t.test('what a spool held from an earlier run belongs to that run', async t => {
  const rows = (sent: number): Row[] => [
    ['source', 'in', [], 10, 10],
    ['destination', 'a', ['in'], 60, sent],
  ]
  t.match(totals(rows(0), {}, { a: 50 }), { received: 10, passed: 0, delivered: {}, undelivered: 10 })
  t.match(totals(rows(55), {}, { a: 50 }), { received: 10, passed: 5, delivered: { a: 55 }, undelivered: 5 })
})

t.test('what came again after a reload may have been discarded twice', async t => {
  const twice = (filtered: number, isRead = true) => {
    const source = new ComponentCounters('in', 'source', 'x')
    source.read(10, 0, true)
    source.gotBack(10, 0, true)
    if (isRead) source.read(10, 0, true)
    t.equal(source.received.events, 10)
    const filter = new ComponentCounters('f', 'processor', 'x')
    if (filtered > 0) filter.discarded('filtered', filtered, 0)
    const components = new Map([source, filter].map(counters => [counters.id, counters]))
    const config = { processors: [{ id: 'f', inputs: ['in'] }], destinations: [] } as unknown as TotalsOf
    return totalsOf(config, { components, heldBefore: new Map(), underWay: 0 })
  }
  t.match(twice(0), { received: 10, given_back: 10, passed: 10 })
  t.match(twice(4), { received: 10, given_back: 10, passed: undefined })
  t.match(twice(4, false), { received: 10, given_back: 10, passed: undefined }, 'and was not read again yet')
})

t.test('what goes to an output of its own, as that of a route, is on its way', async t => {
  const routed: Row[] = [
    ['source', 'in', [], 10, 10],
    ['processor', 'route', ['in'], 10, 10],
    ['processor', 'limit', ['route.errors'], 4, 3, { throttled: 1 }],
    ['destination', 'errors', ['limit'], 3, 3],
    ['destination', 'slow', ['route.slow'], 5, 3],
  ]
  t.match(totals(routed), { passed: 7, undelivered: 2, delivered: { errors: 3, slow: 3 } })
  t.match(totals([...routed, ['destination', 'held', ['limit.discarded'], 1, 0]]), { passed: 7, undelivered: 2 })
  const copied = totals([...routed, ['destination', 'all', ['route.errors', 'route.slow'], 9, 9]])
  t.notOk('passed' in copied, 'an event has two ways')
})

t.test('an event that a processor copies may pass in two ways', async t => {
  const rows = (id: string): Row[] => [
    ['source', 'in', [], 10, 10],
    ['processor', id, ['in'], 10, 10],
    ['destination', 'a', [`${id}.one`, `${id}.two`], 10, 10],
  ]
  t.equal(totals(rows('dividing')).passed, 10)
  t.equal(totals(rows('copying')).passed, undefined)
})

t.test('without one sum there is no number of passed events', async t => {
  const input: Row = ['source', 'in', [], 10, 10]
  const cases: Record<string, Row[]> = {
    'two ways through processors': [
      ['processor', 'f', ['in'], 10, 5, { filtered: 5 }],
      ['processor', 'g', ['in'], 10, 5, { filtered: 5 }],
      ['destination', 'a', ['f', 'g'], 10, 10],
    ],
    'a way beside a processor': [
      ['processor', 'f', ['in'], 10, 5, { filtered: 5 }],
      ['destination', 'a', ['f'], 5, 5],
      ['destination', 'b', ['in'], 10, 10],
    ],
    'a destination of both what passed and what did not': [
      ['processor', 'f', ['in'], 10, 5, { filtered: 5 }],
      ['destination', 'a', ['f', 'f.discarded'], 10, 10],
    ],
    'two destinations that refused events': [
      ['destination', 'a', ['in'], 10, 9, { status_400: 1 }],
      ['destination', 'b', ['in'], 10, 8, { status_400: 2 }],
    ],
    'discards of a side output': [
      ['processor', 'f', ['in'], 10, 5, { filtered: 5 }],
      ['destination', 'a', ['f'], 5, 5],
      ['destination', 'b', ['f.discarded'], 5, 4, { status_400: 1 }],
    ],
  }
  for (const [name, rows] of Object.entries(cases)) {
    const result = totals([input, ...rows])
    t.notOk('passed' in result, name)
    t.equal(result.received, 10)
  }
})
