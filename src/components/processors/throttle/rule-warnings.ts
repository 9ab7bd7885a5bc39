import type { OptionProblem } from '../../../core/component.js'
import type { RuledOptions, RuleOptions } from './rule-options.js'

/** A rule that never holds, since `first`, before it, takes all of its events. Both are indices. */
export interface UselessRule {
  readonly rule: number
  readonly first: number
}

/** Finds the rules that never hold. */
export function uselessRules(rules: readonly RuleOptions[]): UselessRule[] {
  const found: UselessRule[] = []
  const firsts = new Map<string, number>()
  for (const [rule, { key, when }] of rules.entries()) {
    if (key === undefined) continue
    const first = firsts.get(key) ?? firsts.get('*')
    if (first !== undefined) found.push({ rule, first })
    else if (when === undefined) firsts.set(key, rule)
  }
  return found
}

/** Why a rule never holds, behind the rule that is named `first`. */
export function neverHolds(first: string, remedy = 'change their order, or remove one of the two'): string {
  return `never holds: ${first} comes before it and holds for all of its events; ${remedy}`
}

/** Warns of rules in the options that never hold. */
export function ruleWarnings({ limits = [] }: Pick<RuledOptions, 'limits'>): OptionProblem[] {
  return uselessRules(limits).map(({ rule, first }) => ({
    path: ['limits', rule],
    message: neverHolds(`limits[${first}]`),
  }))
}
