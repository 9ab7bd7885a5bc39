import type { EventBatch } from '../../core/event/batch.js'
import type { BucketKey } from './bucket-key.js'
import { Costs } from './costs.js'
import type { Key } from './key-table.js'
import type { Limiter, RuledLimiter } from './limiter.js'
import { RuleFinder } from './rule-finder.js'
import type { Rule } from './rules.js'

/** Decides by the limits of rules. Rules that share what they need share this, too. */
export interface Lane<T> {
  /** For events with a key. Undefined: all events pass. */
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
  readonly #shared = new Map<Limiter<T>, Lane<T>>()

  /** `limiter`: that of the throttle. It loses the limiters of other rules. */
  constructor(rules: readonly Rule[], limiter: RuledLimiter<T>) {
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
  of(n: number): Lane<T> {
    return this.#lanes[n] ?? this.#open(n)
  }

  /** The lane of a rule, if an event needed it before. */
  opened(n: number): Lane<T> | undefined {
    return this.#lanes[n]
  }

  /** The limiter of a rule alone; undefined: all events pass. */
  limiterOf(n: number): Limiter<T> | undefined {
    const rule = this.rules[n]!
    return rule.limits.length > 0 ? this.#limiter.ofRule(rule) : undefined
  }

  #open(n: number): Lane<T> {
    const { limits, costField } = this.rules[n]!
    const own = this.limiterOf(n)
    const limiter = own?.shared ?? own
    const costs = Costs.for(limits, costField)
    const shared = costs === undefined && limiter !== undefined ? this.#shared.get(limiter) : undefined
    const lane = shared ?? { limiter, costs }
    if (limiter !== undefined && costs === undefined) this.#shared.set(limiter, lane)
    this.#lanes[n] = lane
    return lane
  }
}
