import { everWaits, longestWaits, type ThrottleConfig } from '../components/processors/throttle/options.js'
import type { SimulationInput } from './input.js'
import { isThrottle, type ThrottlePath } from './subject.js'

/** How events arrive. Live: each event when it was written. Backlog: all at the same time, as when a daemon starts. */
export interface Arrivals {
  readonly isBacklog: boolean
  /** Whether to also count how many events are discarded with the other way of arrival. */
  readonly wantsOther: boolean
}

/**
 * If the throttle passes or paces backlog, events arrive as backlog, like existing lines when a daemon starts.
 * `isChanged`: the command line changes the throttle. If so, all events are live.
 */
export function arrivalsOf(
  options: ThrottleConfig,
  { processors }: ThrottlePath,
  inputs: readonly SimulationInput[],
  isChanged: boolean,
): Arrivals {
  const isThere = inputs.every(({ source: { definition, options } }) => definition.catchesUp?.(options))
  if (!isThere || options.time_field) return { isBacklog: false, wantsOther: false }
  const keeps = keepsBacklog(options)
  // Events that another throttle delays arrive later than they were written, but not all at the same time.
  const isPaced = processors.some(one => isThrottle(one) && everWaits(one.options as ThrottleConfig))
  return { isBacklog: keeps && !isChanged, wantsOther: !isPaced && !(keeps && isChanged) }
}

/** Whether backlog over the limit passes, immediately or after a wait. */
function keepsBacklog(options: ThrottleConfig): boolean {
  const { on_backlog } = options
  return on_backlog === 'pass' || (on_backlog === 'pace' && longestWaits(options).backlog > 0)
}
