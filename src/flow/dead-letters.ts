import type { ComponentMetrics } from '../core/component.js'
import type { DeliveryError } from '../core/errors.js'
import type { EventBatch } from '../core/event/batch.js'

/** Where events go that are refused for good, or cannot be processed. */
export interface DeadLetters {
  /** Keeps the events safely; rejects when that was not possible. Does not settle them. */
  write(request: readonly EventBatch[], error: DeliveryError): Promise<void>
}

const HELP = 'Events that were kept as dead letters: a destination refused them, or a processor could not process them.'

export function countDeadLetters(metrics: Pick<ComponentMetrics, 'counter'>, reason: string, events: number): void {
  metrics.counter('sluice_dead_letter_events_total', HELP, { reason }).value += events
}
