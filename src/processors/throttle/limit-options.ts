import { z } from 'zod'
import { byteSize, duration, fieldPath, refuseAt } from '../../core/options/options.js'
import type { Limit } from '../../throttle/limit.js'

/** The options that say how much may pass. */

const MISSING_LIMIT = 'is missing; it must be a whole number, or limit_bytes a size'
const LARGEST_LIMIT = 0xffffffff
/** One petabyte. */
const LARGEST_BYTES = 1e15

const limit = () => z.int().min(1).max(LARGEST_LIMIT)
const limitBytes = () => byteSize(1, LARGEST_BYTES)
const windowMode = z.enum(['fixed', 'aligned', 'sliding'])

const further = z.strictObject({
  limit: limit().optional().describe('Number of events, or sum of their costs.'),
  limit_bytes: limitBytes().optional().describe('Size of the events.'),
  window: duration().describe('Length of the window.'),
  window_mode: windowMode.optional().describe('Default: that of the throttle.'),
})

export const limitOptions = {
  limit: limit()
    .optional()
    .describe('Number of events of one bucket that pass in one window; with `cost`, the sum of their costs.'),
  limit_bytes: limitBytes()
    .optional()
    .describe(
      'Size of the events of one bucket that pass in one window, with their line ends. An event that is too large for what is left is discarded; smaller ones may pass after it. With `limit`, an event has to be within both.',
    ),
  window: duration().optional().describe('Length of the window.'),
  window_mode: windowMode
    .default('fixed')
    .describe(
      'fixed: a window opens with the first event counted in its bucket. aligned: windows start at multiples of their length since the epoch. sliding: the window ends with the current event.',
    ),
  cost: fieldPath()
    .optional()
    .describe(
      'Field with the number that an event counts as, instead of 1. It counts as 1 if the field is missing, negative or not a number. Fractions are counted to the millionth.',
    ),
  also: z
    .array(further)
    .min(1)
    .max(16)
    .optional()
    .describe(
      'Further limits of each bucket. An event passes if all limits let it pass; if one does not, it counts in none.',
    ),
}

const schema = z.object(limitOptions)
export type LimitOptions = z.output<typeof schema>

/** Adds an issue for limits that do not fit together. */
export function checkLimits(options: LimitOptions, context: z.RefinementCtx): void {
  const { limit, limit_bytes, window, cost, also = [] } = options
  if (limit === undefined && limit_bytes === undefined) refuseAt(context, ['limit'], MISSING_LIMIT)
  if (window === undefined) refuseAt(context, ['window'], 'is missing; it must be a duration such as "10 Seconds"')
  for (const [n, more] of also.entries()) {
    if (more.limit === undefined && more.limit_bytes === undefined)
      refuseAt(context, ['also', n, 'limit'], MISSING_LIMIT)
  }
  if (cost !== undefined && ![options, ...also].some(({ limit }) => limit !== undefined))
    refuseAt(context, ['cost'], 'has no effect without limit; limit_bytes counts the size of an event')
}

/** All limits of a bucket: at least one. */
export function limitsOf({ limit, limit_bytes, window, window_mode, cost, also = [] }: LimitOptions): Limit[] {
  const own = { limit, limit_bytes, window, window_mode }
  return [own, ...also].flatMap(one => {
    const shared = { mode: one.window_mode ?? window_mode, windowMs: one.window! }
    return [
      ...(one.limit ? [{ ...shared, limit: one.limit, unit: cost ? ('cost' as const) : ('events' as const) }] : []),
      ...(one.limit_bytes ? [{ ...shared, limit: one.limit_bytes, unit: 'bytes' as const }] : []),
    ]
  })
}
