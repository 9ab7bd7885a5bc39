import type { Logger } from 'pino'
import { z } from 'zod'
import type { OptionProblem, Upstream } from '../../../core/component.js'
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

interface WithBacklog {
  readonly mode: string
  readonly over_limit: unknown
  readonly on_backlog?: string | undefined
  readonly time_field?: unknown
}

/** Warns of options without an effect in event time, and of sources whose backlog nothing is said about. */
export function backlogWarnings(options: WithBacklog, upstream: readonly Upstream[]): OptionProblem[] {
  const { mode, over_limit, on_backlog, time_field } = options
  if (on_backlog !== undefined) {
    const message =
      'has no effect with time_field: backlog counts at the time it was written, and nothing waits; remove one of the two'
    return time_field ? [{ path: ['on_backlog'], message }] : []
  }
  if (mode === 'shadow' || over_limit === 'mark' || time_field) return []
  const behind = upstream.filter(({ definition, options }) => definition.catchesUp?.(options as never))
  if (behind.length === 0) return []
  const names = behind.map(({ id }) => id).join(', ')
  const message = `when ${names} ${behind.length === 1 ? 'has' : 'have'} fallen behind, after a stop for example, what was missed arrives all at once, and what exceeds the limit is discarded; set on_backlog: pace to read it only as fast as the limit allows, or time_field: auto to count events at the time they were written (on_backlog: as_live leaves it so)`
  return [{ path: [], message }]
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
