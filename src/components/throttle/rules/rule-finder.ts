import type { EventBatch } from '../../../core/event/batch.js'
import { resized } from '../../../lib/columns.js'
import { type BucketKey, keyBytes } from '../buckets/bucket-key.js'
import { Places } from '../buckets/bucket-part.js'
import { hashedKey, type Key, KeyTable } from '../buckets/key-table.js'
import type { Rule } from './rule.js'

/** Maximum number of keys for which the matching rules are remembered. */
const MOST_KEYS = 131_072

type Test = Pick<Rule, 'when' | 'key'>

/** The rules that may apply to the events of a key. */
interface Route {
  /** Index of the first unconditional rule that matches the key. Without such a rule: the number of rules. */
  readonly stop: number
  /** The rules before `stop` that match the key and have a condition, in order. */
  readonly conditional: readonly number[]
  /** Whether `stop` is the rule for all events of the key, so that no conditions have to be tested. */
  readonly isFixed: boolean
}

/** Used instead of a rule's index if the key alone does not determine the rule. */
export const CONDITIONAL = -2
const NONE: readonly number[] = []

interface Glob {
  readonly rule: number
  readonly test: (text: string) => boolean
}

/**
 * Finds the first rule that holds for an event. The patterns for a key are tested only once. A hash table finds
 * patterns that match a single text. Other patterns are tested if the key begins with their prefix. For each event,
 * conditions are tested in order, up to the first matching rule without a condition.
 */
export class RuleFinder {
  readonly #rules: readonly Test[]
  /** Rules that have a condition and no pattern, in order. */
  readonly #whenOnly: readonly number[]
  /** By text: the rules whose pattern matches only this text. */
  readonly #exact = new Map<string, number[]>()
  /** By prefix: all other patterns. `#prefixes`: the lengths of these prefixes. */
  readonly #globs = new Map<string, Glob[]>()
  readonly #prefixes: readonly number[]
  /** The route for keys that do not match a pattern. */
  readonly #others: Route
  /** Keys whose rules are known. If `#globs` is empty, all keys with their own rule are known at the start. */
  #keys = new KeyTable()
  /** For each known key: the index of its rule, or CONDITIONAL. Most events need only this column. */
  #fixed = new Int32Array(8)
  #routes: Route[] = []
  #places = new Places()

  constructor(rules: readonly Test[], seed: number) {
    this.#rules = rules
    this.#whenOnly = rules.flatMap(({ key }, n) => (key ? [] : [n]))
    this.#others = this.#route([])
    for (const [rule, { key }] of rules.entries()) {
      if (!key) continue
      if (key.text !== undefined) addTo(this.#exact, key.text, rule)
      else addTo(this.#globs, key.prefix, { rule, test: text => key.test(text) })
    }
    this.#prefixes = [...new Set([...this.#globs.keys()].map(({ length }) => length))]
    if (this.#globs.size === 0)
      for (const text of this.#exact.keys()) this.#learn(hashedKey(keyBytes(text), seed), text)
  }

  /**
   * The index of the first rule that holds for event `i`, or -1. `key` must already hold the event's key; undefined if
   * the event has no key. Sets `key.place` if the key alone determines the rule.
   */
  find(batch: EventBatch, i: number, key: BucketKey | undefined): number {
    if (key === undefined) return this.#follow(this.#others, batch, i)
    const id = this.#keys.find(key)
    if (id < 0) return this.#follow(this.#globs.size === 0 ? this.#others : this.#learn(key, key.text()), batch, i)
    const rule = this.#fixed[id]!
    if (rule === CONDITIONAL) return this.#follow(this.#routes[id]!, batch, i)
    key.places = this.#places
    key.place = id
    return rule
  }

  /** The index of the rule for all events with this key, or -1. CONDITIONAL if the rule may depend on the event. */
  ofKey(key: Key): number {
    const id = this.#keys.find(key)
    if (id >= 0) return this.#fixed[id]!
    return this.#globs.size === 0 && this.#others.isFixed ? this.#ruleAt(this.#others.stop) : CONDITIONAL
  }

  #follow({ stop, conditional, isFixed }: Route, batch: EventBatch, i: number): number {
    if (isFixed) return this.#ruleAt(stop)
    const whenOnly = this.#whenOnly
    // Both lists are in order.
    for (let a = 0, b = 0; ; ) {
      const next = Math.min(whenOnly[a] ?? stop, conditional[b] ?? stop)
      if (next >= stop) return this.#ruleAt(stop)
      if (this.#rules[next]!.when!(batch, i)) return next
      if (next === whenOnly[a]) a++
      else b++
    }
  }

  #ruleAt(stop: number): number {
    return stop < this.#rules.length ? stop : -1
  }

  #learn(key: Key, text: string): Route {
    if (this.#keys.size >= MOST_KEYS) {
      this.#keys = new KeyTable()
      this.#routes = []
      this.#places = new Places()
    }
    const route = this.#routeOfText(text)
    const id = this.#keys.add(key)
    if (id >= this.#fixed.length) this.#fixed = resized(this.#fixed, this.#keys.capacity)
    this.#fixed[id] = route.isFixed ? this.#ruleAt(route.stop) : CONDITIONAL
    this.#routes[id] = route
    this.#places.add()
    return route
  }

  #routeOfText(text: string): Route {
    const found = [...(this.#exact.get(text) ?? [])]
    for (const length of this.#prefixes) {
      for (const { rule, test } of this.#globs.get(text.slice(0, length)) ?? []) if (test(text)) found.push(rule)
    }
    return found.length === 0 ? this.#others : this.#route(found.sort((a, b) => a - b))
  }

  #route(rules: readonly number[]): Route {
    const stop = rules.find(rule => this.#rules[rule]!.when === undefined) ?? this.#rules.length
    const conditional = rules.some(rule => rule < stop) ? rules.filter(rule => rule < stop) : NONE
    const isFixed = conditional.length === 0 && (this.#whenOnly[0] ?? stop) >= stop
    return { stop, conditional, isFixed }
  }
}

function addTo<V>(map: Map<string, V[]>, key: string, value: V): void {
  const values = map.get(key)
  if (values) values.push(value)
  else map.set(key, [value])
}
