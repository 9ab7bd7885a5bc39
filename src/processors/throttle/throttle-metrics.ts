import type { ComponentMetrics } from '../../core/component.js'
import type { ThrottleOptions } from './options.js'

export const DECISIONS = 'sluice_throttle_events_total'
export const DECISIONS_HELP = 'Events by decision of the throttle.'

export type ThrottleMetrics = Pick<ComponentMetrics, 'counter' | 'counters' | 'gauge'>

/** The metrics of a throttle. In shadow mode, all have the label `mode`. */
export function metricsIn(mode: ThrottleOptions['mode'], metrics: ComponentMetrics): ThrottleMetrics {
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
