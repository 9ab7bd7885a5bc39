import type { DeliveryError } from '../../core/errors.js'
import type { EventBatch } from '../../core/event/batch.js'

/** In a batch, the events that a component does not pass on. */
export interface DiscardedEvents {
  readonly batch: EventBatch
  readonly reason: string
  readonly events: number
  /** Only events with the decision `value` in `to` are discarded; without `to`, all events of the batch are. */
  readonly to?: Uint8Array
  readonly value?: number
  /** Whether these events are written to the dead-letter queue. */
  readonly areKept?: boolean
  /** Why event `i` could not be processed, if the event is discarded for that reason. */
  error?(i: number): string | undefined
}

/**
 * Observes what becomes of a component's events, while their bytes are valid. Must not keep references to the events.
 */
export interface FateObserver {
  /** Whether the observer may need the discarded events of a batch. Called for each batch, so it must be fast. */
  wants(batch: EventBatch): boolean
  discarded(events: DiscardedEvents): void
  rejected(request: readonly EventBatch[], error: DeliveryError): void
  delivered(request: readonly EventBatch[]): void
}
