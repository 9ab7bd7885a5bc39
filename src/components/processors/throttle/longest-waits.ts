import { MAX_DELAY_MS } from './backlog.js'
import type { ThrottleOptions } from './options.js'

type Timing = Pick<ThrottleOptions, 'mode' | 'over_limit' | 'on_backlog' | 'max_delay' | 'time_field'>

/** How long events may wait for room, in milliseconds; 0: not at all. */
export function longestWaits({ mode, over_limit, on_backlog, max_delay, time_field }: Timing) {
  if (mode === 'shadow' || time_field) return { live: 0, backlog: 0 }
  const live = typeof over_limit === 'object' && 'wait' in over_limit ? over_limit.wait : 0
  return { live, backlog: on_backlog === 'pace' ? (max_delay ?? MAX_DELAY_MS) : live }
}

export function everWaits(timing: Timing): boolean {
  const { live, backlog } = longestWaits(timing)
  return live + backlog > 0
}
