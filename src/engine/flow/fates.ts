import type { DeliveryError } from '../../core/errors.js'
import type { EventBatch } from '../../core/event/batch.js'

/** Events of a batch that a component does not pass on. */
export interface DiscardedEvents {
  readonly batch: EventBatch
  readonly reason: string
  /** Number of these events. */
  readonly events: number
  /** The events with `value` in this column; without a column, all events of the batch. */
  readonly to?: Uint8Array
  readonly value?: number
  /** Whether they are written to the dead-letter queue. */
  readonly areKept?: boolean
  /** Why event `i` could not be processed, if that is the reason. */
  error?(i: number): string | undefined
}

/** Observes the fates of a component's events while their bytes are valid. Must keep no reference to them. */
export interface FateObserver {
  discarded(events: DiscardedEvents): void
  /** A receiver has rejected the events of a request permanently. */
  rejected(request: readonly EventBatch[], error: DeliveryError): void
  /** A receiver has accepted them. */
  delivered(request: readonly EventBatch[]): void
}
