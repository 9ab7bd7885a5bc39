import type { ComponentMetrics } from '../core/component.js'

const HELP = 'Events that were kept as dead letters: a destination refused them, or a processor could not process them.'

export function countDeadLetters(metrics: Pick<ComponentMetrics, 'counter'>, reason: string, events: number): void {
  metrics.counter('sluice_dead_letter_events_total', HELP, { reason }).value += events
}
