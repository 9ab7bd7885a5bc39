import { z } from 'zod'
import { byteSize, refuse } from '../../../core/options/options.js'
import { reaches } from '../../../core/options/reach.js'
import { NearestName } from '../../../lib/nearest.js'

/** The options of a limit in calendar periods. */

/** Largest number of events, and of bytes: one petabyte. */
export const LARGEST_LIMIT = 0xffffffff
export const LARGEST_BYTES = 1e15

/** A zone that the runtime knows. */
export const timeZone = reaches('nothing', z.string().meta({ examples: ['Europe/Berlin'] })).transform(
  (name, context): string => {
    try {
      return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone
    } catch {
      const nearest = new NearestName().find(name, ['UTC', ...Intl.supportedValuesOf('timeZone')])
      const hint = nearest === undefined ? ', as in Europe/Berlin' : `; did you mean "${nearest}"?`
      return refuse(context, `is not a time zone of this system${hint}`)
    }
  },
)

export const quota = z.strictObject({
  limit: z.int().min(1).max(LARGEST_LIMIT).optional().describe('Number of events, or sum of their costs.'),
  limit_bytes: byteSize(1, LARGEST_BYTES).optional().describe('Size of the events.'),
  per: z
    .enum(['hour', 'day', 'week', 'month'])
    .describe('The period. Weeks begin on Monday; a day with a change of clocks is one day.'),
  time_zone: timeZone.default('UTC').describe('Zone in which periods begin and end. Default: `UTC`.'),
})
