import type { EventBatch } from '../../../core/event/batch.js'
import type { FieldReader } from '../../../core/event/field-reader.js'
import type { BucketKey } from '../buckets/bucket-key.js'
import type { BucketPart, PlacedKey } from '../buckets/bucket-part.js'
import type { Key } from '../buckets/key-table.js'
import type { Decision } from '../decisions.js'
import { Costs, type Level, type Limit } from '../limit.js'
import type { Windows } from '../windows.js'
import type { KeyPattern } from './key-pattern.js'
import { RuleFinder } from './rule-finder.js'

/** Limits for events that satisfy a condition, whose bucket matches a pattern, or both. */
export interface Rule {
  /** Stays the same if the rule moves in its list. */
  readonly id: string
  /** Equal in all daemons that have a rule with this pattern and condition, even with other limits. */
  readonly sharedName: string
  /** The name that people see. */
  readonly name: RuleName
  readonly when: ((batch: EventBatch, i: number) => boolean) | undefined
  readonly key: KeyPattern | undefined
  /** Empty: all events pass. */
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

/** Decides by the limits of buckets. Without a key, an event belongs to the default bucket. Costs: see `Windows`. */
export interface BucketLimiter {
  /** Seed of the key hashes. */
  readonly seed: number
  /** The limiter that holds this rule's keyed buckets, possibly shared with other rules. */
  readonly shared?: BucketLimiter | undefined
  /** The part with all keyed buckets, if there is only one. Undefined without buckets. */
  readonly undivided?: BucketPart<Windows> | undefined
  take(key: PlacedKey | undefined, time: number, cost: number, size: number): Decision
  /** Undefined, as from `roomAt`: there is no room for the bucket. */
  level(key: PlacedKey | undefined, time: number, cost: number, size: number): Level | undefined
  roomAt(key: PlacedKey | undefined, time: number, cost: number, size: number): number | undefined
}

export interface RuledLimiter extends BucketLimiter {
  ofRule(rule: Rule): BucketLimiter
  /** Drops the limiters of all other rules. */
  keepRules(rules: readonly Rule[]): void
}

/** Drops the limiters of removed rules. */
export function keepOnly(limiters: Map<string, { release(): void }>, rules: readonly Rule[]): void {
  const kept = new Set(rules.map(({ id }) => id))
  for (const [id, limiter] of limiters) {
    if (kept.has(id)) continue
    limiter.release()
    limiters.delete(id)
  }
}

export interface RuleLimit {
  /** Undefined: all events pass. */
  readonly limiter: BucketLimiter | undefined
  /** Undefined: each event costs 1. */
  readonly costs: Costs | undefined
}

/** The rules of a throttle, each with a limiter that is created for its first event. */
export class RuleLimits {
  readonly rules: readonly Rule[]
  readonly #limiter: RuledLimiter
  readonly #finder: RuleFinder
  readonly #ruleLimits: (RuleLimit | undefined)[]

  /** `limiter`: of the throttle. Drops its limiters of other rules. */
  constructor(rules: readonly Rule[], limiter: RuledLimiter) {
    this.rules = rules
    this.#limiter = limiter
    this.#finder = new RuleFinder(rules, limiter.seed)
    this.#ruleLimits = new Array(rules.length).fill(undefined)
    limiter.keepRules(rules)
  }

  /** The index of the rule that holds for event `i`, or -1. `key`: loaded with its key, if it has one. */
  find(batch: EventBatch, i: number, key: BucketKey | undefined): number {
    return this.#finder.find(batch, i, key)
  }

  /** The index of the rule that holds for all events with this key, or -1; CONDITIONAL if that is not known. */
  ofKey(key: Key): number {
    return this.#finder.ofKey(key)
  }

  /** The limits of a rule. */
  of(n: number): RuleLimit {
    return this.#ruleLimits[n] ?? this.#open(n)
  }

  /** The limits of a rule, if an event needed them before. */
  opened(n: number): RuleLimit | undefined {
    return this.#ruleLimits[n]
  }

  #open(n: number): RuleLimit {
    const rule = this.rules[n]!
    const limiter = rule.limits.length > 0 ? this.#limiter.ofRule(rule) : undefined
    const ruleLimit = { limiter, costs: Costs.for(rule.limits, rule.costField) }
    this.#ruleLimits[n] = ruleLimit
    return ruleLimit
  }
}
