import { pino } from 'pino'
import t from 'tap'
import { statusDocument } from '../../../../src/core/status-document.js'
import { Rates } from '../../../../src/daemon/status/rates.js'
import { statusOf } from '../../../../src/daemon/status/status.js'
import { Metrics } from '../../../../src/engine/run/measure/metrics.js'
import { ManualTime } from '../../../support/manual-time.js'

const log = pino({ level: 'silent' })

t.test('one document: what runs, how fast, what waits, and what is wrong', async t => {
  const time = new ManualTime()
  const metrics = new Metrics(log)
  const into = metrics.component('in', 'source', 'stdin')
  const lim = metrics.component('lim', 'processor', 'throttle')
  const out = metrics.component('out', 'destination', 'http')
  into.gauge('sluice_component_utilization', 'Share.', () => 0.2)
  let reads = 0
  lim.gauge('sluice_component_utilization', 'Share.', () => {
    reads++
    return 0.75
  })
  lim.fact({
    name: 'sluice_unread_bytes',
    help: 'Unread bytes.',
    read: () => {
      reads++
      return [{ labels: { file: 'a' }, value: 7 }]
    },
    shown: (bytes = 0) => `${bytes}B unread`,
    backlog: 'file',
    problem: bytes => ({ gravity: 'notice', what: `${bytes} bytes are not read`, todo: 'Wait.' }),
  })
  out.gauge('sluice_component_utilization', 'Share.', () => 1)
  lim.waiting = () => 4
  out.waiting = () => 1
  into.histogram('sluice_delivery_attempt_seconds', 'Time.', [1]).observe(2)
  const rates = new Rates(() => metrics.components.values(), time)
  const reason = '401 from POST http://127.0.0.1/'
  const reports = {
    components: () => [into, lim, out],
    destinations: () => [{ id: 'out', state: 'holding', reason }],
    about: () => ({ config: undefined, data_dir: '/var/lib/x' }),
    reloadingSince: () => 1000,
    rates,
  }
  const wait = { options: ['on_backlog: pace'], buckets: [] }
  const look = async () => statusOf(reports, metrics, true, id => (id === 'lim' ? wait : undefined), 1_700_000_000_000)

  into.read(10, 1000, false)
  const first = await look()
  t.match(first, {
    version: 1,
    at: '2023-11-14T22:13:20.000Z',
    ready: false,
    reloading_since: '1970-01-01T00:00:01.000Z',
    data_dir: '/var/lib/x',
    bottleneck: { id: 'lim', share: 0.75 }, // not the destination, which waits for somebody
    waiting: [{ id: 'lim', events: 4, options: ['on_backlog: pace'] }],
    problems: [{ what: `out is holding: ${reason}`, todo: /^No events are lost/ }],
    notices: [{ what: '7 bytes are not read' }],
    backlog: [{ component: 'lim', name: 'a', bytes: 7 }],
    components: [
      { id: 'in', kind: 'source', type: 'stdin', received: 10, sent: 10, discarded: 0 },
      { id: 'lim', kind: 'processor', utilization: 0.75 },
      { id: 'out', kind: 'destination' },
    ],
  })
  t.equal(reads, 2, 'each number is read once')
  t.notOk('stopping' in first)
  t.equal(first.components[0]!.per_second, undefined, 'no rate in the first second')
  t.same(first.series.sluice_component_received_events_total![0], {
    labels: { component_id: 'in', component_kind: 'source', component_type: 'stdin' },
    value: 10,
  })
  t.notOk('sluice_delivery_attempt_seconds' in first.series, 'no histograms')
  const json = JSON.parse(JSON.stringify(first))
  t.same(json.series, first.series)
  t.same(statusDocument.parse(json), json, 'the document has the members of its schema, and no others')

  await time.advance(4000)
  into.read(30, 3000, false)
  lim.arrived(8, 80)
  lim.took(8, 80)
  lim.discarded('throttled', 8, 80)
  t.match((await look()).components, [
    { per_second: { received: 10, received_bytes: 1000, sent: 10, discarded: 0 } },
    { per_second: { received: 2, discarded: 2 } },
  ])
  rates.note()
  await time.advance(500)
  t.match((await look()).components[0]!.per_second, { received: 40 / 4.5 }, 'what was noted just now is too near')
  await time.advance(1500)
  t.match((await look()).components[0]!.per_second, { received: 0 }, 'since the last moment that was noted')
})

t.test('after a reload, only the components that run are listed, each with its own numbers', async t => {
  const metrics = new Metrics(log)
  const former = metrics.component('out', 'destination', 'http')
  const gone = metrics.component('gone', 'destination', 'http')
  for (const one of [former, gone]) one.arrived(5, 50)
  const out = metrics.component('out', 'destination', 'file')
  out.arrived(2, 20)
  const reports = { components: () => [out], destinations: () => [] }
  const { components } = await statusOf(reports, metrics, true)
  t.match(components, [{ id: 'out', type: 'file', received: 2, in_flight: 2 }])
  t.equal(components.length, 1)
})

t.test('without texts, reasons are in words of Sluice alone, in every part of the document', async t => {
  const quoted = 'refused {"secret":"sesame"}'
  const outage = { since: '2023-11-14T22:13:20.000Z', attempts: 1, meanwhile: 'all pass' }
  const past = { since: outage.since, until: outage.since, failures: 1, error: quoted }
  const reports = {
    components: () => ['in', 'out', 'lim'].map(id => ({ id, kind: 'source', type: 'x' })),
    destinations: () => [
      { id: 'out', state: 'holding', reason: quoted, ownReason: 'status 400' },
      { id: 'fine', state: 'ready', reason: undefined, last_outage: past },
    ],
    failures: () => [{ id: 'in', state: 'failing' as const, reason: quoted, ownReason: 'ECONNRESET' }],
    outages: () => [{ id: 'lim', reason: quoted, ...outage }],
  }
  const open = await statusOf(reports, new Metrics(log), false)
  t.notMatch(JSON.stringify(open), 'sesame')
  t.match(open, {
    problems: [
      { what: 'out is holding: status 400' },
      { what: 'in fails: ECONNRESET' },
      { what: /: unknown error$/, detail: /^Since / },
    ],
    destinations: [{ reason: 'status 400' }, { state: 'ready', last_outage: { failures: 1 } }],
    components: [{ last_error: 'ECONNRESET' }, { last_error: 'status 400' }, { last_error: 'unknown error' }],
  })
  t.equal('reason' in open.destinations[1]! && open.destinations[1].reason, undefined)
  const full = await statusOf(reports, new Metrics(log), true)
  t.equal(JSON.stringify(full).split('sesame').length - 1, 10)
  t.notMatch(JSON.stringify(full), 'ownReason')
})
