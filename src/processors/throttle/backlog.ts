import type { Logger } from 'pino'
import { z } from 'zod'
import { LogLimit } from '../../lib/log-limit.js'
import type { Clock } from '../../lib/time.js'

/** The options for what a source sends while it catches up. */
export const backlogOptions = {
  on_backlog: z
    .enum(['as_live', 'pass'])
    .optional()
    .describe(
      'Without a time_field only: what happens to the events that a source reads while it catches up, after a start or when it had no room for a second; of what it had begun to read before. They arrive all at once, whenever they were written. as_live: they count when they arrive; those beyond the limit are discarded as `throttled_backlog`. pass: they pass and are not counted. Default: `as_live`.',
    ),
}

/** Creates a function that logs discarded backlog, once in a while. */
export function backlogReport(log: Logger, clock: Clock): (events: number) => void {
  const limit = new LogLimit(clock)
  let unreported = 0
  return events => {
    unreported += events
    const limited = limit.next('backlog')
    if (!limited) return
    log.warn(
      { code: 'SLUICE_THROTTLED_BACKLOG', events: unreported },
      'discarded events of a source that is catching up; set on_backlog, or time_field to count events when they were written',
    )
    unreported = 0
  }
}
