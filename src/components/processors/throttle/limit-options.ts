import { z } from 'zod'
import { byteSize, duration, fieldPath, refuseAt } from '../../../core/options/options.js'
import { nominalMs } from '../../throttle/calendar-periods.js'
import type { Limit, WindowMode } from '../../throttle/limit.js'
import { LARGEST_BYTES, LARGEST_LIMIT, quota } from './quota-options.js'

/** The options that say how much may pass. */

const limit = () => z.int().min(1).max(LARGEST_LIMIT)
const limitBytes = () => byteSize(1, LARGEST_BYTES)
const windowMode = z.enum(['fixed', 'aligned', 'sliding', 'gcra'])
const burst = () => byteSize(0, LARGEST_BYTES)

const further = z.strictObject({
  limit: limit().optional().describe('Number of events, or sum of their costs.'),
  limit_bytes: limitBytes().optional().describe('Size of the events.'),
  window: duration().describe('Length of the window.'),
  window_mode: windowMode.optional().describe('Default: that of the throttle.'),
  burst: burst().optional().describe('With `window_mode: gcra`, as for the throttle. Default: the limit less 1.'),
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
      'fixed: a window opens with the first event counted in its bucket. aligned: windows start at multiples of their length since the epoch. sliding: the window ends with the current event. gcra: events pass at a smooth rate of one per window / limit, and `burst` above it.',
    ),
  burst: burst()
    .optional()
    .describe(
      'With `window_mode: gcra` only: how many events pass at once above the smooth rate; 0: none. With `cost` it is a sum of costs, and with `limit_bytes` alone a size. Default: the limit less 1.',
    ),
  cost: fieldPath()
    .optional()
    .describe(
      'Field with the number that an event counts as, instead of 1. It counts as 1 if the field is missing, negative or not a number; a text such as `"5"` is none. Fractions are counted to the millionth.',
    ),
  also: z
    .array(further)
    .min(1)
    .max(16)
    .optional()
    .describe(
      'Further limits of each bucket. An event passes if all limits let it pass; if one does not, it counts in none.',
    ),
  quota: quota
    .optional()
    .describe(
      'A limit of each bucket in calendar periods, alone or with the other limits. It follows the wall clock, or `time_field`; setting the clock back does not give it a second time.',
    ),
}

const schema = z.object(limitOptions)
export type LimitOptions = z.output<typeof schema>
type Own = Pick<LimitOptions, 'limit' | 'limit_bytes' | 'window' | 'burst'> & { readonly window_mode?: WindowMode }

const hasLimit = ({ limit, limit_bytes }: Pick<LimitOptions, 'limit' | 'limit_bytes'>) =>
  limit !== undefined || limit_bytes !== undefined

const MISSING_LIMIT = 'is missing; it must be a whole number, or limit_bytes a size'
const MISSING_WINDOW = 'is missing; it must be a duration such as "10 Seconds"'

/** Why a limit cannot be shared by several daemons. */
const NOT_SHARED =
  'sliding cannot be combined with scope: cluster, where the server would have to keep the time of each event; use gcra, which is smooth as well'

/** Limits, and whether several daemons share them. */
export type ScopedLimits = LimitOptions & { readonly scope?: 'local' | 'cluster' }

/** Adds an issue for limits that do not fit together. */
export function checkLimits(options: ScopedLimits, context: z.RefinementCtx): void {
  const { window, cost, quota, also = [] } = options
  if (!hasLimit(options) && quota === undefined) refuseAt(context, ['limit'], MISSING_LIMIT)
  if (window === undefined && (hasLimit(options) || quota === undefined)) refuseAt(context, ['window'], MISSING_WINDOW)
  if (quota && !hasLimit(quota)) refuseAt(context, ['quota', 'limit'], MISSING_LIMIT)
  if (cost !== undefined && ![options, ...also, ...(quota ? [quota] : [])].some(({ limit }) => limit !== undefined))
    refuseAt(context, ['cost'], 'has no effect without limit; limit_bytes counts the size of an event')
  checkBurst(options, [], context)
  if (options.scope === 'cluster') checkShared(options, context)
  for (const [n, more] of also.entries()) {
    if (!hasLimit(more)) refuseAt(context, ['also', n, 'limit'], MISSING_LIMIT)
    checkBurst({ ...more, window_mode: more.window_mode ?? options.window_mode }, ['also', n], context)
  }
}

function checkShared({ window_mode, also = [] }: LimitOptions, context: z.RefinementCtx): void {
  if (window_mode === 'sliding') refuseAt(context, ['window_mode'], NOT_SHARED)
  for (const [n, more] of also.entries())
    if (more.window_mode === 'sliding') refuseAt(context, ['also', n, 'window_mode'], NOT_SHARED)
}

function checkBurst({ burst, window_mode }: Own, at: (string | number)[], context: z.RefinementCtx): void {
  if (burst !== undefined && window_mode !== 'gcra')
    refuseAt(context, [...at, 'burst'], 'has no effect without window_mode: gcra')
}

/** All limits of a bucket: at least one. */
export function limitsOf(options: LimitOptions): Limit[] {
  const { window_mode, cost, quota, also = [] } = options
  const ofEvents = cost ? 'cost' : 'events'
  const limits: Limit[] = []
  for (const { limit, limit_bytes, window, window_mode: mode = window_mode, burst } of [options, ...also]) {
    const windowMs = window!
    if (limit !== undefined) limits.push({ mode, limit, windowMs, burst, unit: ofEvents })
    // With both, burst is that of the events.
    const bytesBurst = limit === undefined ? burst : undefined
    if (limit_bytes !== undefined) limits.push({ mode, limit: limit_bytes, windowMs, burst: bytesBurst, unit: 'bytes' })
  }
  if (quota) {
    const { limit, limit_bytes, per, time_zone: timeZone } = quota
    const shared = { mode: 'quota' as const, windowMs: nominalMs(per), per, timeZone }
    if (limit !== undefined) limits.push({ ...shared, limit, unit: ofEvents })
    if (limit_bytes !== undefined) limits.push({ ...shared, limit: limit_bytes, unit: 'bytes' })
  }
  return limits
}
