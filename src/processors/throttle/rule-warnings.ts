import type { OptionWarning } from '../../core/component.js'
import type { RuledOptions } from './rule-options.js'

/** Warns of rules that never hold, since one before them takes all of their events. */
export function ruleWarnings({ limits = [] }: Pick<RuledOptions, 'limits'>): OptionWarning[] {
  const warnings: OptionWarning[] = []
  const firsts = new Map<string, number>()
  for (const [n, { key, when }] of limits.entries()) {
    if (key === undefined) continue
    const first = firsts.get(key) ?? firsts.get('*')
    if (first !== undefined) {
      const message = `never holds: limits[${first}] comes before it and holds for all of its events; change their order, or remove one of the two`
      warnings.push({ path: ['limits', n], message })
    } else if (when === undefined) firsts.set(key, n)
  }
  return warnings
}
