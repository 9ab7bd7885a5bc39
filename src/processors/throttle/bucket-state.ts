import type { BucketState } from '../../core/component.js'
import type { Clock } from '../../lib/time.js'
import { keyBytes } from '../../throttle/bucket-key.js'
import { bucketName } from '../../throttle/bucket-name.js'
import type { Refusal } from '../../throttle/decider.js'
import type { DiscardHistory } from '../../throttle/discard-history.js'
import { EventDecider } from '../../throttle/event-decider.js'
import { viewOf } from '../../throttle/key-table.js'
import type { Level } from '../../throttle/limit.js'
import { LiveDecider } from '../../throttle/live-decider.js'
import { ruleTitle } from '../../throttle/rules.js'

/**
 * The state of the bucket with this text; null: the default one. `hasRules`: the text does not say which rule holds, so
 * the limit is the one that discarded one of its last events.
 */
export function bucketState(
  decider: unknown,
  history: DiscardHistory,
  key: string | null,
  clock: Clock,
  hasRules: boolean,
): BucketState {
  const name = key === null ? null : bucketName(key)
  if (hasRules) return { ...lastRefusal(history.refusal(name)), ...discardsOf(history, name, clock.now()) }
  const now = clock.now()
  const inEventTime = decider instanceof EventDecider
  const level = decider instanceof LiveDecider || inEventTime ? levelOf(decider, key, now) : undefined
  const offsetMs = inEventTime ? 0 : clock.wall() - now
  const timeText = (ms: number) => new Date(ms + offsetMs).toISOString()
  const isOpen = level && level.used > 0 && level.until > level.since
  return {
    ...(level && {
      limit: level.limit.limit,
      unit: level.limit.unit,
      window_ms: level.limit.windowMs,
      window_mode: level.limit.mode,
      used: level.used,
    }),
    ...(isOpen && { since: timeText(level.since), until: timeText(level.until) }),
    ...discardsOf(history, name, now),
  }
}

function discardsOf(history: DiscardHistory, name: string | null, now: number) {
  return { discarded_last_hour: Math.round(history.lastHour(name, now)), is_exact: history.isExact(now) }
}

function lastRefusal(refusal: Refusal | undefined) {
  if (!refusal) return {}
  const { limit, unit, windowMs, count, rule } = refusal
  return { ...(rule && { rule: ruleTitle(rule) }), limit, unit, window_ms: windowMs, used: count }
}

/** How full the bucket is now, or, in event time, when the events are that come now. */
function levelOf({ limiter }: LiveDecider | EventDecider, key: string | null, now: number): Level | undefined {
  const time = 'progress' in limiter ? limiter.progress.oldest : now
  if (!Number.isFinite(time)) return undefined
  limiter.advance(time)
  if (key === null) return limiter.levelOfDefault(time, 1, 1)
  const bytes = keyBytes(key)
  return limiter.level(viewOf(bytes), 0, bytes.length, time, 1, 1)
}
