import type { FilesThere, OptionProblem, Upstream } from '../../../core/component.js'
import { counted, formatSize } from '../../../lib/units.js'
import {
  backlogMode,
  type ClusterOptions,
  type RuledOptions,
  type RuleOptions,
  type ThrottleConfig,
} from './options.js'

/** Warnings about valid but rarely intended options. */

/** Warns of options without an effect, of a backlog without `on_backlog`, and of rules that never hold. */
export async function optionWarnings(options: ThrottleConfig, upstream: readonly Upstream[]): Promise<OptionProblem[]> {
  return [...clusterWarnings(options), ...(await backlogWarnings(options, upstream)), ...ruleWarnings(options)]
}

function clusterWarnings({ scope, on_backend_failure, expected_members }: ClusterOptions): OptionProblem[] {
  if (scope === 'local' || (on_backend_failure ?? 'local_share') !== 'local_share' || expected_members !== undefined)
    return []
  const message =
    'expected_members is missing: while the server does not reply, each daemon passes the whole limit; give the number of daemons'
  return [{ path: ['scope'], message }]
}

async function backlogWarnings(options: ThrottleConfig, upstream: readonly Upstream[]): Promise<OptionProblem[]> {
  const { mode, over_limit, on_backlog, max_credit, time_field } = options
  // One warning is enough for both.
  const set = Object.entries({ on_backlog, max_credit })
    .filter(([, value]) => value !== undefined)
    .slice(0, 1)
  if (time_field) {
    const message =
      'has no effect with time_field: events of a backlog count at the time when they were written, and do not wait; remove one of the two options'
    return set.map(([name]) => ({ path: [name], message }))
  }
  const how = backlogMode(options)
  if (set.length > 0 && on_backlog !== 'as_live' && how === 'as_live') {
    const message =
      'has no effect with scope: cluster: other daemons may have used the limit while this one was behind, so backlog counts like live events (as_live)'
    return set.map(([name]) => ({ path: [name], message }))
  }
  if ((how !== 'credit' && how !== 'as_live') || mode === 'shadow' || over_limit === 'mark') return []
  const behind = upstream.filter(({ definition, options }) => definition.catchesUp?.(options as never))
  if (behind.length === 0) return []
  const there = await thereText(behind)
  const names = behind.map(({ id }) => id).join(', ')
  const start = how === 'credit' ? 'the first start' : 'a start'
  const text = `lines of ${names} that were written before ${start} arrive all at once, and events over the limit are discarded`
  // If the option is set explicitly, or matters only once, warns only of a backlog whose size is known.
  if (how === 'credit' && there === '') return []
  if (on_backlog !== undefined) return there === '' ? [] : [{ path: ['on_backlog'], message: `${text}${there}` }]
  const message = `${text}${there}; set on_backlog: pace to read them only as fast as the limit allows, or time_field: auto to count events at the time when they were written (on_backlog: as_live accepts this)`
  return [{ path: [], message }]
}

/** A text with the size of the current backlog. Empty without a backlog, or if the size is unknown. */
async function thereText(sources: readonly Upstream[]): Promise<string> {
  const first = sources.filter(one => !one.hasStarted())
  const found = first.map(
    async ({ definition, options }) => (await definition.inspects?.())?.filesThere?.(options) ?? [],
  )
  const all = (await Promise.all(found)).flat()
  if (all.length === 0) return ''
  const sum = (of: (one: FilesThere) => number) => all.reduce((total, one) => total + of(one), 0)
  const least = all.some(({ mayBeMore }) => mayBeMore) ? 'at least ' : ''
  const files = counted(
    sum(({ files }) => files),
    'file',
  )
  return `: a first start would read ${least}${formatSize(sum(({ bytes }) => bytes))} in ${files}; sluice simulate counts the events that this discards`
}

/**
 * A rule that never holds, because an earlier rule takes all of its events. `rule` and `first`: the indices of the two
 * rules.
 */
interface UselessRule {
  readonly rule: number
  readonly first: number
}

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

/** The reason why a rule never holds. `first`: the name of the earlier rule that takes its events. */
export function neverHolds(first: string, remedy = 'change their order, or remove one of the two'): string {
  return `never holds: ${first} comes before it and holds for all of its events; ${remedy}`
}

function ruleWarnings({ limits = [] }: Pick<RuledOptions, 'limits'>): OptionProblem[] {
  return uselessRules(limits).map(({ rule, first }) => ({
    path: ['limits', rule],
    message: neverHolds(`limits[${first}]`),
  }))
}
