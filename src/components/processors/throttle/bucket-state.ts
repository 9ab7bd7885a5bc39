import type { Clock } from '../../../lib/time.js'
import { keyBytes } from '../../throttle/buckets/bucket-key.js'
import { bucketName } from '../../throttle/buckets/bucket-name.js'
import { hashedKey } from '../../throttle/buckets/key-table.js'
import type { ClusterDecider } from '../../throttle/cluster/cluster-decider.js'
import type { DiscardHistory } from '../../throttle/counts/discard-history.js'
import type { Decider } from '../../throttle/decider.js'
import type { BucketState } from '../../throttle/keyed-processor.js'
import type { Level } from '../../throttle/limit.js'
import type { Rule } from '../../throttle/rules/rule.js'
import { type BucketLimiter, ruleTitle } from '../../throttle/rules/rules.js'

export interface BucketStates {
  readonly decider: Decider | ClusterDecider
  readonly history: DiscardHistory
  readonly clock: Clock
  readonly rules: readonly Rule[] | undefined
  /** Whether keys without a bucket share the default bucket. */
  readonly sharesDefault: boolean
}

/**
 * The state of the bucket with this key. If `key` is null, the default bucket is meant. Each rule has its own buckets,
 * so `title` chooses the rule. Null means the throttle's own limit. Undefined means the rule of the last recorded
 * discard or, without a record, the rule that the key alone determines.
 */
export function bucketState(of: BucketStates, key: string | null, title: string | null | undefined): BucketState {
  const { history, clock } = of
  const name = key === null ? null : bucketName(key)
  const now = clock.now()
  const rule = of.rules ? ruleOf(of.rules, key, title ?? (title === null ? null : noted(history, name))) : null
  return {
    ...(rule && { rule: ruleTitle(rule.name) }),
    ...(rule !== undefined && levelIn(of, rule, key, now)),
    discarded_last_hour: Math.round(history.lastHour(name, now)),
    discarded_since: new Date(history.since(now) + clock.wall() - now).toISOString(),
    is_exact: history.isExact(now),
  }
}

/** Title of the rule that discarded an event of the bucket. Null for the throttle's own limit; undefined if unknown. */
function noted(history: DiscardHistory, name: string | null): string | null | undefined {
  const refusal = history.refusal(name)
  return refusal && (refusal.rule ? ruleTitle(refusal.rule) : null)
}

/**
 * The rule with this title. If `title` is undefined, the rule that all events of the key have in common. Returns null
 * if no rule applies, and undefined if the rule is unknown.
 */
function ruleOf(rules: readonly Rule[], key: string | null, title: string | null | undefined): Rule | null | undefined {
  if (title === null) return null
  for (const rule of rules) {
    if (title !== undefined) {
      if (ruleTitle(rule.name) === title) return rule
    } else if (rule.key === undefined || (key !== null && rule.key.test(key))) {
      return rule.when === undefined ? rule : undefined
    }
  }
  return title === undefined ? null : undefined
}

/** How full the bucket is now. In event time: at the time that every active origin has reached. */
function levelIn({ decider, clock, sharesDefault }: BucketStates, rule: Rule | null, key: string | null, now: number) {
  if (rule?.limits.length === 0) return {}
  const { limiter } = decider
  const inEventTime = 'inEventTime' in decider ? decider.inEventTime : undefined
  const time = inEventTime ? inEventTime.progress.oldest : now
  if (!Number.isFinite(time)) return {}
  limiter.advance(time)
  const level = levelOf(rule ? limiter.ofRule(rule) : limiter, key, time, sharesDefault)
  if (!level) return {}
  const { limit, unit, windowMs, mode } = level.limit
  const offsetMs = inEventTime ? 0 : clock.wall() - now
  const timeText = (ms: number) => new Date(ms + offsetMs).toISOString()
  const isOpen = level.used > 0 && level.until > level.since
  return {
    ...{ limit, unit, window_ms: Math.round(windowMs), window_mode: mode, used: level.used },
    ...(isOpen && { since: timeText(level.since), until: timeText(level.until) }),
  }
}

function levelOf(limiter: BucketLimiter, text: string | null, time: number, sharesDefault: boolean): Level | undefined {
  const key = text === null ? undefined : hashedKey(keyBytes(text), limiter.seed)
  const level = limiter.level(key, time, 1, 1)
  return level ?? (sharesDefault ? limiter.level(undefined, time, 1, 1) : undefined)
}
