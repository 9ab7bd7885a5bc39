import type { EventBatch } from '../../core/event/batch.js'
import type { BucketKey } from './bucket-key.js'
import { Costs } from './costs.js'
import type { Key } from './key-table.js'
import { RuleFinder } from './rule-finder.js'
import type { BucketLimiter, Rule, RuledLimiter } from './rules.js'

/** Decides by the limits of one rule. */
export interface Lane {
  /** Undefined: all events pass. */
  readonly limiter: BucketLimiter | undefined
  /** Undefined: each event costs 1. */
  readonly costs: Costs | undefined
}

/** The rules of a throttle, each with a limiter that is made for its first event. */
export class Lanes {
  readonly rules: readonly Rule[]
  readonly #limiter: RuledLimiter
  readonly #finder: RuleFinder
  readonly #lanes: (Lane | undefined)[]

  /** `limiter`: that of the throttle. It loses the limiters of other rules. */
  constructor(rules: readonly Rule[], limiter: RuledLimiter) {
    this.rules = rules
    this.#limiter = limiter
    this.#finder = new RuleFinder(rules, limiter.seed)
    this.#lanes = new Array(rules.length).fill(undefined)
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

  /** The lane of a rule. */
  of(n: number): Lane {
    return this.#lanes[n] ?? this.#open(n)
  }

  /** The lane of a rule, if an event needed it before. */
  opened(n: number): Lane | undefined {
    return this.#lanes[n]
  }

  #open(n: number): Lane {
    const rule = this.rules[n]!
    const limiter = rule.limits.length > 0 ? this.#limiter.ofRule(rule) : undefined
    const lane = { limiter, costs: Costs.for(rule.limits, rule.costField) }
    this.#lanes[n] = lane
    return lane
  }
}
