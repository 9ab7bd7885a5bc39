import type { EventBatch } from '../../core/event/batch.js'
import type { FieldReader } from '../../core/event/field-reader.js'
import type { KeyPattern } from './key-pattern.js'
import type { Limit } from './limit.js'

/** Limits for events that satisfy a condition, or whose bucket matches a pattern, or both. */
export interface Rule {
  /** The same for the same rule, also if it has moved in its list. */
  readonly id: string
  /** The same in all daemons whose rule has this pattern and condition, whatever its limits are. */
  readonly sharedName: string
  /** For people. */
  readonly name: RuleName
  readonly when: ((batch: EventBatch, i: number) => boolean) | undefined
  readonly key: KeyPattern | undefined
  /** None: all events pass. */
  readonly limits: readonly Limit[]
  readonly costField: FieldReader | undefined
}

export interface RuleName {
  readonly list: 'limits' | 'limits_file'
  /** The number in its list, from 1. */
  readonly place: number
  /** Its pattern and condition, as in `key batch-*`. */
  readonly text: string
}

/** A rule as people find it in the configuration: `limits[0] (key batch-*)`. */
export function ruleTitle({ list, place, text }: RuleName): string {
  return `${list}[${place - 1}] (${text})`
}

/** Drops the limiters of rules that are gone. */
export function keepOnly(limiters: Map<string, { release(): void }>, rules: readonly Rule[]): void {
  const kept = new Set(rules.map(({ id }) => id))
  for (const [id, limiter] of limiters) {
    if (kept.has(id)) continue
    limiter.release()
    limiters.delete(id)
  }
}
