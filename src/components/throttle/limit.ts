/** What a limit counts, and how. */

import type { CalendarUnit } from './calendar-periods.js'

export type WindowMode = 'fixed' | 'aligned' | 'sliding' | 'gcra'

/** One limit of a bucket. */
export type Limit = Rate | Quota

interface Counted {
  /** What may pass in one window, in its unit. */
  readonly limit: number
  readonly windowMs: number
  /** Of gcra: what may pass at once above the smooth rate, in the same unit. Default: limit - 1. */
  readonly burst?: number | undefined
  /** cost: a limit of events, each of which counts as its cost. */
  readonly unit: 'events' | 'bytes' | 'cost'
}

interface Rate extends Counted {
  readonly mode: WindowMode
}

/** A limit in each calendar period. `windowMs` is the usual length of one; most are as long. */
export interface Quota extends Counted {
  readonly mode: 'quota'
  readonly per: CalendarUnit
  readonly timeZone: string
}

/**
 * Costs are counted in whole millionths, so that their sums are exact: a limit is below 2^32, and as millionths below
 * 2^53.
 */
export const PER_COST = 1_000_000

/** How many of what windows count make one of the limit's unit. */
export function scaleOf({ unit }: Limit): number {
  return unit === 'cost' ? PER_COST : 1
}

/** How full a window is. Times are those of the decisions; amounts are in the limit's unit. */
export interface Level {
  readonly limit: Limit
  readonly used: number
  /** When what is counted began, and when all of it will have ended. Both are the present if nothing is counted. */
  readonly since: number
  readonly until: number
}
