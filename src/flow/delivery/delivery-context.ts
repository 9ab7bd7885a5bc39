import type { Logger } from 'pino'
import type { ComponentMetrics } from '../../core/component.js'
import type { Random } from '../../lib/backoff.js'
import type { after, Clock } from '../../lib/time.js'
import type { DeadLetters } from '../dead-letters.js'
import type { OutageState } from './outage.js'
import type { RequestPool } from './request-slots.js'

/** What a delivery needs from outside, and what it says of itself. */

/** What is counted of every request and batch. */
export interface DeliveryCounters {
  /** A batch was taken from the stream. */
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
  /** Requests under way that it shares with other destinations; without it only `max_in_flight` bounds them. */
  readonly requests?: RequestPool | undefined
  /** Timers; lib/time.ts when left out. */
  readonly after?: typeof after
  /** How delivery to the same destination went before a reload. */
  readonly outage?: OutageState | undefined
}

/** `failing`: it has been tried again for long. `refusing`: most of what it got lately was refused for good. */
export type DeliveryState = 'starting' | 'ready' | 'holding' | 'retrying' | 'failing' | 'refusing' | 'stopped'
