import type { EventBatch } from '../../../core/event/batch.js'
import type { BucketKey } from '../buckets/bucket-key.js'
import type { BucketPart, PlacedKey } from '../buckets/bucket-part.js'
import type { Key } from '../buckets/key-table.js'
import type { Decision } from '../decisions.js'
import { Costs, type Level } from '../limit.js'
import type { Windows } from '../windows.js'
import type { Rule, RuleName } from './rule.js'
import { RuleFinder } from './rule-finder.js'

/** The text by which people find a rule in the configuration: `limits[0] (key batch-*)`. */
export function ruleTitle({ list, place, text }: RuleName): string {
  return `${list}[${place - 1}] (${text})`
}

/** Decides by the limits of buckets. An event without a key belongs to the default bucket. Costs: see `Windows`. */
export interface BucketLimiter {
  readonly seed: number
  /** The limiter that holds this rule's keyed buckets, possibly shared with other rules. */
  readonly shared?: BucketLimiter | undefined
  /** The part that holds all keyed buckets; undefined if there are several parts, or no keyed buckets yet. */
  readonly undivided?: BucketPart<Windows> | undefined
  take(key: PlacedKey | undefined, time: number, cost: number, size: number): Decision
  /** `level` and `roomAt` return undefined if there is no room for the bucket. */
  level(key: PlacedKey | undefined, time: number, cost: number, size: number): Level | undefined
  roomAt(key: PlacedKey | undefined, time: number, cost: number, size: number): number | undefined
}

export interface RuledLimiter extends BucketLimiter {
  ofRule(rule: Rule): BucketLimiter
  /** Drops the limiters of rules that are not in `rules`. */
  keepRules(rules: readonly Rule[]): void
}

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

/** The rules of a throttle. The limiter of a rule is created for the first event of this rule. */
export class RuleLimits {
  readonly rules: readonly Rule[]
  readonly #limiter: RuledLimiter
  readonly #finder: RuleFinder
  readonly #ruleLimits: (RuleLimit | undefined)[]

  /** `limiter`: the throttle's limiter. This limiter drops the limiters of rules that are not in `rules`. */
  constructor(rules: readonly Rule[], limiter: RuledLimiter) {
    this.rules = rules
    this.#limiter = limiter
    this.#finder = new RuleFinder(rules, limiter.seed)
    this.#ruleLimits = new Array(rules.length).fill(undefined)
    limiter.keepRules(rules)
  }

  find(batch: EventBatch, i: number, key: BucketKey | undefined): number {
    return this.#finder.find(batch, i, key)
  }

  ofKey(key: Key): number {
    return this.#finder.ofKey(key)
  }

  of(n: number): RuleLimit {
    return this.#ruleLimits[n] ?? this.#open(n)
  }

  /** The limits of a rule; undefined if no event has needed them yet. */
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
