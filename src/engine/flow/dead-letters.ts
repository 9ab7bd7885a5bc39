import type { ComponentMetrics } from '../../core/component.js'
import type { DeliveryError } from '../../core/errors.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { ComponentCounters } from './counters.js'

/** Receives events that are rejected permanently or cannot be processed. */
export interface DeadLetters {
  /** Stores the events safely, but does not settle them. The promise rejects if the events cannot be stored. */
  write(request: readonly EventBatch[], error: DeliveryError): Promise<void>
}

const HELP =
  'Events written to the dead-letter queue: a destination rejected them, or a processor could not process them.'

const NAME = 'sluice_dead_letter_events_total'

export function countDeadLetters(metrics: Pick<ComponentMetrics, 'counter'>, reason: string, events: number): void {
  metrics.counter(NAME, HELP, { reason }).value += events
}

/** Whether events that the component discarded for this reason are in the dead-letter queue. */
export const areKept = (counters: ComponentCounters, reason: string): boolean =>
  (counters.sum(NAME, { reason }) ?? 0) > 0
