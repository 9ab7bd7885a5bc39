import t from 'tap'
import type { Fact } from '../../../../src/core/fact.js'
import { ComponentSet } from '../../../../src/engine/flow/counters.js'
import { Seconds } from '../../../../src/page/server/second.js'
import { ManualTime } from '../../../support/manual-time.js'

t.test('the numbers of a second', async t => {
  const set = new ComponentSet()
  const time = new ManualTime()
  const [source, up] = [set.component('in', 'source', 'file'), set.component('up', 'destination', 'http')]
  source.read(12, 120, false)
  up.arrived(12, 120)
  up.sent(7, 70)
  up.discarded('status_400', 2, 20)
  up.gauge('sluice_component_utilization', '', () => 0.25)
  const show = (name: string, value: number, live: Fact['live']) => {
    up.fact({ name, help: '', read: () => value, live })
  }
  show('a', 2, in_flight => ({ in_flight }))
  show('b', 4, allowed => ({ allowed }))
  show('c', 1.5, seconds => ({ oldest_ms: seconds * 1000 }))
  show('d', Number.NaN, buffered_bytes => ({ buffered_bytes }))
  show('e', 3, dead_letters => ({ dead_letters }))
  show('f', 6, retries => ({ retries }))
  const seconds = new Seconds(time)
  const totals = { received: 12, passed: 7, discarded: { up: { status_400: 2 } }, delivered: { up: 7 }, undelivered: 3 }
  const attempts = up.histogram('sluice_delivery_attempt_seconds', '', [0.1, 1])
  const next = () => JSON.parse(JSON.stringify(seconds.next([source, up], totals)))
  t.same(next(), {
    at: time.wall(),
    books: { ...totals, in_flight: 3, lost: { up: { status_400: 2 } }, kept: {} },
    components: { in: [12, 12, 0, 0, null], up: [12, 7, 2, 12, 250] },
    destinations: {
      up: {
        in_flight: 2,
        allowed: 4,
        retries: 6,
        oldest_ms: 1500,
        unanswered_ms: 0,
        buffered_bytes: 0,
        dead_letters: 3,
      },
    },
  })
  for (let i = 0; i < 98; i++) attempts.observe(0.05)
  for (let i = 0; i < 2; i++) attempts.observe(0.5)
  const { up: busy } = next().destinations
  t.equal(busy.p50_ms, 100, 'the upper bound of its bucket')
  t.equal(busy.p99_ms, 500, 'not more than the longest attempt took')
  for (let i = 0; i < 3; i++) attempts.observe(9)
  t.match(next().destinations.up, { p50_ms: 100, p99_ms: 9000 }, 'above the last bound, too')
  await time.advance(10_000)
  t.ok('p50_ms' in next().destinations.up, 'for ten seconds at least')
  await time.advance(10_000)
  t.notOk('p50_ms' in next().destinations.up, 'and for twenty at most')
  t.equal(seconds.next([], undefined).books, undefined, 'while no pipeline runs')
})
