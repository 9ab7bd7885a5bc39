import type { EventBatch } from '../core/event/batch.js'
import type { BucketKey } from './bucket-key.js'
import { Costs } from './costs.js'
import type { Limiter, RuledLimiter } from './limiter.js'
import { RuleFinder } from './rule-finder.js'
import type { Rule } from './rules.js'

/** Decides by the limits of one rule. */
export interface Lane<T> {
  readonly rule: Rule
  /** Undefined: all events pass. */
  readonly limiter: Limiter<T> | undefined
  /** Undefined: each event costs 1. */
  readonly costs: Costs | undefined
}

/** The rules of a throttle, each with a limiter that is made for its first event. */
export class Lanes<T> {
  readonly rules: readonly Rule[]
  readonly #limiter: RuledLimiter<T>
  readonly #finder: RuleFinder
  readonly #lanes: (Lane<T> | undefined)[]

  /** `limiter`: that of the throttle. It loses the limiters of other rules. */
  constructor(rules: readonly Rule[], limiter: RuledLimiter<T>) {
    this.rules = rules
    this.#limiter = limiter
    this.#finder = new RuleFinder(rules, limiter.seed)
    this.#lanes = new Array(rules.length).fill(undefined)
    limiter.keepRules(rules)
  }

  /** The lane of event `i`; undefined if no rule holds. `key`: loaded with its key, if it has one. */
  of(batch: EventBatch, i: number, key: BucketKey | undefined): Lane<T> | undefined {
    const n = this.#finder.find(batch, i, key)
    return n < 0 ? undefined : (this.#lanes[n] ?? this.#open(n))
  }

  #open(n: number): Lane<T> {
    const rule = this.rules[n]!
    const limiter = rule.limits.length > 0 ? this.#limiter.ofRule(rule) : undefined
    const lane = { rule, limiter, costs: Costs.for(rule.limits, rule.costField) }
    this.#lanes[n] = lane
    return lane
  }
}
