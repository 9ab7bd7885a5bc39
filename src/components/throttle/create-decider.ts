import type { Clock } from '../../lib/time.js'
import { createClockDecider, Decider } from './decider.js'
import type { DeciderOptions, EventTimeOptions } from './decider-options.js'
import { EventTiming } from './event/timing.js'
import { Limiter } from './limiter.js'

/** Creates a decider in event time. `before`: the limiter of a predecessor with the same options. */
export function createEventDecider(
  options: DeciderOptions,
  eventTime: EventTimeOptions,
  clock: Clock,
  before?: unknown,
): Decider {
  const known = before instanceof Limiter && before.timing instanceof EventTiming ? before : undefined
  known?.timing.setTime(eventTime.time)
  return new Decider(options, clock, known ?? new Limiter(options, new EventTiming(eventTime)))
}

/**
 * Creates a decider in event time if the options have `eventTime`, otherwise in clock time. `before`: the limiter of a
 * predecessor with the same options.
 */
export function createDecider(options: DeciderOptions, clock: Clock, before?: unknown): Decider {
  const { eventTime } = options
  return eventTime ? createEventDecider(options, eventTime, clock, before) : createClockDecider(options, clock, before)
}
