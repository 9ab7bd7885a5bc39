import type { Clock } from '../../lib/time.js'
import type { DeciderOptions, EventTimeOptions } from './decider.js'
import { EventDecider, EventLimiter } from './event-decider.js'
import { createLiveDecider, type LiveDecider } from './live-decider.js'

/** A decider for batches in order of arrival. */
export type BatchDecider = LiveDecider | EventDecider

/**
 * Creates a decider in event time if the options say so, otherwise in clock time. `before`: the windows of a predecessor
 * with the same options.
 */
export function createDecider(options: DeciderOptions, clock: Clock, before?: unknown): BatchDecider {
  const { eventTime } = options
  return eventTime ? createEventDecider(options, eventTime, clock, before) : createLiveDecider(options, clock, before)
}

/** Like `createDecider`, in event time. */
export function createEventDecider(
  options: DeciderOptions,
  eventTime: EventTimeOptions,
  clock: Clock,
  before?: unknown,
): EventDecider {
  return new EventDecider(options, eventTime, clock, before instanceof EventLimiter ? before : undefined)
}
