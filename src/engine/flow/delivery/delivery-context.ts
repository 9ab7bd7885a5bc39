import type { Logger } from 'pino'
import type { ComponentMetrics } from '../../../core/component.js'
import type { Random } from '../../../lib/backoff.js'
import type { after, Clock } from '../../../lib/time.js'
import type { DeadLetters } from '../dead-letters.js'
import type { OutageState } from './outage.js'
import type { RequestPool } from './request-slots.js'

/** The environment of a delivery, and its states. */

/** Counters of requests and batches. */
export interface DeliveryCounters {
  /** Counts a batch taken from the stream. */
  received(events: number, bytes: number): void
  sent(events: number, bytes: number): void
  discarded(reason: string, events: number, bytes: number): void
  failed(kind: string): void
}

export interface DeliveryContext {
  readonly id: string
  readonly log: Logger
  readonly clock: Clock
  readonly random: Random
  readonly deadLetter: DeadLetters
  readonly counters: DeliveryCounters
  readonly metrics: Pick<ComponentMetrics, 'counter' | 'gauge' | 'histogram'>
  /** The pool of requests shared with other destinations. If missing, only `max_in_flight` limits requests. */
  readonly requests?: RequestPool | undefined
  /** Timers; default: lib/time.ts. */
  readonly after?: typeof after
  /** State of deliveries to the same destination before a reload. */
  readonly outage?: OutageState | undefined
}

/** `failing`: attempts have failed for a long time. `refusing`: most recent requests were rejected permanently. */
export type DeliveryState = 'starting' | 'ready' | 'holding' | 'retrying' | 'failing' | 'refusing' | 'stopped'
