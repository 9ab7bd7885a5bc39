import t from 'tap'
import type { LimitsFile } from '../../../../src/components/processors/throttle/limits-file.js'
import {
  countFailOpen,
  describeLosses,
  showBuckets,
  showLimitsFile,
} from '../../../../src/components/processors/throttle/throttle-metrics.js'
import { ComponentCounters } from '../../../../src/engine/flow/counters.js'
import { WaitingRoom } from '../../../../src/engine/flow/waiting.js'
import { problemsIn } from '../../../support/facts.js'

t.test('a limits file that cannot be used is a problem while earlier rules are in use', async t => {
  const seen = (isValid: boolean) =>
    problemsIn('lim', metrics => showLimitsFile(metrics, { isValid, readAt: 1, rules: [] } as unknown as LimitsFile))
  t.same(seen(true), [])
  t.match(seen(false), [
    {
      what: 'lim: its limits file cannot be used; the rules that were read last stay in use',
      detail: /^They were read at .*\d\d:\d\d:\d\d\.$/,
      todo: /names the line/,
    },
  ])
})

t.test('events without a limit are a problem while all keys are in use', async t => {
  const seen = (events: number, isFull: boolean) =>
    problemsIn('lim', metrics => {
      countFailOpen(metrics, () => isFull).value = events
    })
  t.match(seen(7, true), [
    { what: 'lim has passed 7 events without a limit since the daemon started', todo: /Raise max_keys/ },
  ])
  t.same([...seen(7, false), ...seen(0, true)], [])
})

t.test('what throttles discard besides what is beyond their limits is told with what to do', async t => {
  for (const [reason, todo] of [
    [
      'throttled_backlog',
      /over the limit\. .*raise the limit, .*`on_backlog: pace`\. If it is `pace` already, .*max_delay\. If it is `credit`, without `scope: cluster`, raise max_credit/,
    ],
    ['max_keys', /Raise max_keys/],
    ['late', /allowed_lateness/],
    ['no_backend', /on_backend_failure/],
  ] as const)
    t.match(
      problemsIn(
        'lim',
        metrics => {
          describeLosses(metrics)
          metrics.discarded(reason, 5, 5)
        },
        { kind: 'processor' },
      ),
      [{ what: `lim has discarded 5 events since the daemon started: ${reason}`, todo }],
    )
})

t.test('a throttle shows how many keys it has, and how many events wait for room in their limit', async t => {
  const counters = new ComponentCounters('lim', 'processor', 'throttle')
  const decider = { buckets: 2, limiter: { dropped: 0 } }
  showBuckets(counters, decider, 100)
  new WaitingRoom({ metrics: counters } as never)
  t.same(counters.shown(), ['2 keys'])
  const { shown } = counters.series.get('sluice_component_waiting_events')![0]!
  t.same([0, 1, 12_345].map(shown!), [false, '1 event waits', '12.3k events wait'])
  t.same(counters.live, { buckets: 2 })
})
