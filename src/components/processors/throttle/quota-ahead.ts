import type { Logger } from 'pino'
import { above0 } from '../../../core/fact.js'
import type { Clock } from '../../../lib/time.js'
import { clockTime } from '../../../lib/units.js'
import type { Limit, Quota } from '../../throttle/limit.js'
import type { Periods } from '../../throttle/windows/periods.js'
import { periodsOf } from '../../throttle/windows/several.js'
import type { WallTime } from '../../throttle/windows/wall-time.js'
import type { ThrottleMetrics } from './throttle-metrics.js'

/** A clock counts as set back if it is more than this behind the latest wall time of a decision. */
const DRIFT_MS = 1000

/**
 * Reports quotas that count events in a future period. This happens if the clock jumped ahead and was then set back.
 * Returns a function to call for each batch.
 */
export function reportQuotasAhead(
  wall: WallTime,
  limits: () => readonly Limit[],
  clock: Clock,
  metrics: ThrottleMetrics,
  log: Logger,
): () => void {
  let checked = Number.NEGATIVE_INFINITY
  /** A cache by `per` and time zone, because creating periods is slow and many rules may share them. */
  const known = new Map<string, Periods>()
  const periods = (limit: Quota) => {
    const name = `${limit.per} ${limit.timeZone}`
    const found = known.get(name) ?? periodsOf(limit)!
    known.set(name, found)
    return found
  }
  const isAhead = () => wall.latestMs > clock.wall() + DRIFT_MS
  /** Returns the end of the last future period, in milliseconds since the epoch. Returns 0 without a future period. */
  const until = () => {
    const now = clock.wall()
    if (!isAhead()) return 0
    const ends = limits().flatMap(limit => (limit.mode === 'quota' ? [periods(limit)] : []))
    return Math.max(0, ...ends.filter(to => to.startOf(wall.latestMs) > now).map(to => to.endOf(wall.latestMs)))
  }
  metrics.fact({
    name: 'sluice_throttle_quota_ahead_timestamp_seconds',
    help: 'If the clock was set back, events count in the quota of a later period until this time; otherwise 0.',
    read: () => until() / 1000,
    problem: above0(
      'limits',
      (seconds, { wall }) =>
        `its events count in the quota of a later period until ${clockTime(new Date(seconds * 1000).toISOString(), wall)}, because the clock was set back`,
      'Until then, a bucket that has used up its quota in that period passes nothing. If the clock is correct now, restart the daemon: systemctl restart sluice. With persist, the amount used in that period then counts in the current period.',
    ),
  })
  return () => {
    if (wall.latestMs <= checked || !isAhead()) return
    checked = wall.latestMs
    const end = until()
    if (end === 0) return
    log.warn(
      { code: 'SLUICE_QUOTA_AHEAD', until: new Date(end).toISOString() },
      'the clock was set back: events count in the quota of a later period until that period ends. To count them in the current period, restart the daemon: systemctl restart sluice',
    )
  }
}
