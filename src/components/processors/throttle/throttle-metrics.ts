import type { ComponentMetrics } from '../../../core/component.js'
import type { LimitsFile } from './limits-file.js'
import type { ThrottleConfig } from './options.js'

export const DECISIONS = 'sluice_throttle_events_total'
export const DECISIONS_HELP = 'Events by decision of the throttle.'

export type ThrottleMetrics = Pick<ComponentMetrics, 'counter' | 'counters' | 'gauge'>

/** The metrics of a throttle. In shadow mode, all of them have the label `mode`. */
export function metricsIn(mode: ThrottleConfig['mode'], metrics: ComponentMetrics): ThrottleMetrics {
  if (mode === 'enforce') return metrics
  return {
    counter: (name, help, labels) => metrics.counter(name, help, { ...labels, mode }),
    counters: (name, help, rest, read) => {
      const labelled = () => [...read()].map(({ labels, value }) => ({ labels: { ...labels, mode }, value }))
      metrics.counters(name, help, { ...rest, mode }, labelled)
    },
    gauge: (name, help, read, labels) => metrics.gauge(name, help, read, { ...labels, mode }),
  }
}

interface Buckets {
  readonly buckets: number
  readonly limiter: { readonly dropped: number }
}

/** Shows the number of buckets. Returns a function that counts dropped buckets and must be called from time to time. */
export function showBuckets(metrics: ThrottleMetrics, decider: Buckets, maxKeys: number): () => void {
  metrics.gauge('sluice_throttle_buckets', 'Buckets in memory, without the default one.', () => decider.buckets)
  metrics.gauge('sluice_throttle_max_buckets', 'Maximum number of buckets: max_keys.', () => maxKeys)
  const total = metrics.counter(
    'sluice_throttle_dropped_buckets_total',
    'Buckets that were removed because they were idle or their rule was removed.',
  )
  // If the limiter is inherited, the predecessor has already counted the buckets dropped so far.
  let counted = decider.limiter.dropped
  return () => {
    const { dropped } = decider.limiter
    total.value += dropped - counted
    counted = dropped
  }
}

export function showLimitsFile(metrics: ThrottleMetrics, file: LimitsFile): void {
  const valid =
    '1 if the rules in use are the rules of limits_file; 0 if the file is broken and earlier rules are used.'
  metrics.gauge('sluice_throttle_limits_file_valid', valid, () => (file.isValid ? 1 : 0))
  const read = 'When the rules in use were read, in seconds since the epoch.'
  metrics.gauge('sluice_throttle_limits_file_read_timestamp_seconds', read, () => file.readAt / 1000)
  metrics.gauge('sluice_throttle_limits_file_rules', 'Rules of limits_file in use.', () => file.rules.length)
}
