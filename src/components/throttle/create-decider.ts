import type { Clock } from '../../lib/time.js'
import { createClockDecider, type Decider, type DeciderOptions } from './decider.js'
import { createEventDecider } from './event-timing.js'

/** Creates a decider in event time if the options say so, otherwise on the clock. `before`: see there. */
export function createDecider(options: DeciderOptions, clock: Clock, before?: unknown): Decider {
  const { eventTime } = options
  return eventTime ? createEventDecider(options, eventTime, clock, before) : createClockDecider(options, clock, before)
}
