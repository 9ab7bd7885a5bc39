import type { Logger } from 'pino'
import { z } from 'zod'
import type { OptionWarning } from '../../../core/component.js'
import { duration, refuseAt } from '../../../core/options/options.js'
import { LogLimit } from '../../../lib/log-limit.js'
import type { Clock } from '../../../lib/time.js'

/** How long an event may wait at most with `on_backlog: pace`, by default. */
export const MAX_DELAY_MS = 3_600_000

/** The options for what a source sends while it catches up. */
export const backlogOptions = {
  on_backlog: z
    .enum(['as_live', 'pace', 'pass'])
    .optional()
    .describe(
      'Without a time_field only: what happens to the events that a source reads while it catches up, after a start or when it had no room for a second; of what it had begun to read before. They arrive all at once, whenever they were written. as_live: they count when they arrive; those beyond the limit are discarded as `throttled_backlog`. pace: those beyond the limit wait until there is room, and the source is read only as fast as the limit allows. pass: they pass and are not counted. Default: `as_live`.',
    ),
  max_delay: duration()
    .optional()
    .describe(
      'With `on_backlog: pace` only: how long an event may wait; one for which there is no room by then is decided as if it were live. Default: `1 Hours`.',
    ),
}

type BacklogOptions = z.output<z.ZodObject<typeof backlogOptions>>

/** Refuses options without an effect. */
export function checkBacklog({ on_backlog, max_delay }: BacklogOptions, context: z.RefinementCtx): void {
  if (max_delay !== undefined && on_backlog !== 'pace')
    refuseAt(context, ['max_delay'], 'has no effect without on_backlog: pace')
}

/** Warns of options without an effect in event time, in which a backlog needs none of them. */
export function backlogWarnings({
  on_backlog,
  time_field,
}: {
  on_backlog?: string | undefined
  time_field?: unknown
}): OptionWarning[] {
  if (on_backlog === undefined || !time_field) return []
  const message =
    'has no effect with time_field: backlog counts at the time it was written, and nothing waits; remove one of the two'
  return [{ path: ['on_backlog'], message }]
}

/** What becomes of backlog unless the options say what should. */
export function lossOfBacklog(options: {
  mode: string
  over_limit: unknown
  on_backlog?: string | undefined
  time_field?: unknown
}): string | undefined {
  const { mode, over_limit, on_backlog, time_field } = options
  if (mode === 'shadow' || over_limit === 'mark' || on_backlog !== undefined || time_field) return undefined
  return 'what exceeds the limit is discarded; set on_backlog: pace to read it only as fast as the limit allows, or time_field: auto to count events at the time they were written (on_backlog: as_live leaves it so)'
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
