import type { ComponentMetrics } from '../../../core/component.js'
import type { Fact } from '../../../core/fact.js'
import { clockTime, counted } from '../../../lib/units.js'
import type { LimitsFile } from './limits-file.js'
import type { ThrottleConfig } from './options.js'

export const DECIDED = 'sluice_throttle_events_total'
export const DECISIONS_HELP = 'Events by decision of the throttle.'

export type ThrottleMetrics = Pick<ComponentMetrics, 'counter' | 'counters' | 'fact' | 'gauge'>

/** The metrics of a throttle. In shadow mode, all of them have the label `mode`. */
export function metricsIn(mode: ThrottleConfig['mode'], metrics: ComponentMetrics): ThrottleMetrics {
  if (mode === 'enforce') return metrics
  return {
    counter: (name, help, labels, shown) => metrics.counter(name, help, { ...labels, mode }, shown),
    counters: (name, help, rest, read) => {
      const labelled = () => [...read()].map(({ labels, value }) => ({ labels: { ...labels, mode }, value }))
      metrics.counters(name, help, { ...rest, mode }, labelled)
    },
    fact: fact => metrics.fact({ ...fact, labels: { mode } }),
    gauge: (name, help, read) => metrics.gauge(name, help, read, { mode }),
  }
}

interface Buckets {
  readonly buckets: number
  readonly limiter: { readonly dropped: number }
}

/** Advice by discard reason. Events with another reason are discarded because of a limit. */
const LOSSES: Readonly<Record<string, string>> = {
  throttled_backlog:
    'Its source was catching up, and their buckets were over the limit. To keep such events, raise the limit, or delay them with `on_backlog: pace`. If it is `pace` already, set a longer max_delay. If it is `credit`, without `scope: cluster`, raise max_credit if the source was behind for longer. At a first start, this time is unknown, and credit has no effect.',
  max_keys:
    'Their keys were new, and max_keys other keys were in use. Raise max_keys, or choose a key_field with fewer values; `sluice top` shows the busiest keys.',
  late: 'They were later than allowed_lateness. Raise it, or set on_late to pass.',
  no_backend: 'The server of the cluster limit did not reply, and on_backend_failure is discard.',
}

export function describeLosses(metrics: ComponentMetrics): void {
  for (const [reason, todo] of Object.entries(LOSSES)) metrics.describeLoss(reason, todo)
}

/** Counts events that pass without a limit. It is a problem while all keys are in use. `isFull`: whether they are. */
export function countFailOpen(metrics: ThrottleMetrics, isFull: () => boolean): { value: number } {
  const problem: Fact['problem'] = (events, { id }) => {
    const todo =
      'The limit of max_keys is reached, and events of further keys pass uncounted. Raise max_keys, or choose a key_field with fewer values; `sluice top` shows the busiest keys.'
    const what = `${id} has passed ${counted(events, 'event')} without a limit since the daemon started`
    return events > 0 && isFull() && { gravity: 'uncounted', what, todo }
  }
  return metrics.counter(DECIDED, DECISIONS_HELP, { decision: 'fail_open' }, { problem })
}

/** Shows the number of buckets. Returns a function that counts dropped buckets and must be called from time to time. */
export function showBuckets(metrics: ThrottleMetrics, decider: Buckets, maxKeys: number): () => void {
  const help = 'Buckets in memory, without the default one.'
  const shown = { shown: (keys = 0) => counted(keys, 'key'), live: (buckets: number) => ({ buckets }) }
  metrics.fact({ name: 'sluice_throttle_buckets', help, read: () => decider.buckets, ...shown })
  metrics.gauge('sluice_throttle_max_buckets', 'Maximum number of buckets: max_keys.', () => maxKeys)
  const total = metrics.counter(
    'sluice_throttle_dropped_buckets_total',
    'Buckets that were removed because they were idle or their rule was removed.',
  )
  // If the limiter is inherited, the predecessor has already counted the buckets dropped so far.
  let before = decider.limiter.dropped
  return () => {
    const { dropped } = decider.limiter
    total.value += dropped - before
    before = dropped
  }
}

export function showLimitsFile(metrics: ThrottleMetrics, file: LimitsFile): void {
  const valid =
    '1 if the rules in use are the rules of limits_file; 0 if the file is broken and earlier rules are used.'
  metrics.fact({
    name: 'sluice_throttle_limits_file_valid',
    help: valid,
    read: () => (file.isValid ? 1 : 0),
    problem: (isValid, { id, wall }) =>
      isValid === 0 && {
        gravity: 'limits',
        what: `${id}: its limits file cannot be used; the rules that were read last stay in use`,
        detail: `They were read at ${clockTime(new Date(file.readAt).toISOString(), wall)}.`,
        todo: 'Correct the file; the log names the line. The throttle reads a changed file by itself.',
      },
  })
  const read = 'When the rules in use were read, in seconds since the epoch.'
  metrics.gauge('sluice_throttle_limits_file_read_timestamp_seconds', read, () => file.readAt / 1000)
  const [help, rules] = ['Rules of limits_file in use.', () => file.rules.length]
  metrics.fact({ name: 'sluice_throttle_limits_file_rules', help, read: rules, live: file_rules => ({ file_rules }) })
}
