import { limitsOf } from '../../../components/processors/throttle/limit-options.js'
import { UsageError } from '../../../daemon/process/command-line.js'
import { budgetGoal } from './budget.js'
import { type Goal, keepGoal } from './goal.js'
import type { Replay } from './replay.js'
import type { SearchResult, Unanswered } from './result.js'
import { LimitSearch, SearchPass } from './search.js'
import { keyText, windowText } from './settings.js'
import { number } from './table.js'
import type { FieldContext } from './trials.js'
import { type Variant, variantOf } from './variants.js'

export interface GoalOptions {
  readonly suggest: string | undefined
  readonly budget: string | undefined
  readonly 'time-zone': string | undefined
  readonly limit: readonly string[]
}

/** What was found for one variant. */
export interface Found {
  readonly variant: Variant
  readonly search: SearchResult
}

/** Replays the whole input. */
export type Pass = (createVisitor: (context: FieldContext) => SearchPass) => Promise<Replay<SearchPass>>

/** The goal of the command line; undefined if there is none. Throws UsageError. */
export function goalOf({ suggest, budget, limit, 'time-zone': zone }: GoalOptions): Goal | undefined {
  const option = suggest === undefined ? '--budget' : '--suggest'
  if ((suggest ?? budget) !== undefined && limit.length > 0)
    throw new UsageError(`${option} finds the limit: leave out --limit`, 'simulate')
  if (suggest !== undefined && budget !== undefined)
    throw new UsageError('give --suggest or --budget, not both', 'simulate')
  if (zone !== undefined && budget === undefined)
    throw new UsageError('--time-zone is that of the periods of --budget, which is missing', 'simulate')
  if (suggest !== undefined) return keepGoal(suggest)
  return budget === undefined ? undefined : budgetGoal(budget, zone)
}

/** What was found, and the variants for which there is nothing to be found. */
export interface Search {
  readonly found: readonly Found[]
  readonly unanswered: readonly Unanswered[]
}

/** Finds the limit of each variant. Throws if none has one. */
export async function findLimits(variants: readonly Variant[], goal: Goal, pass: Pass): Promise<Search> {
  const searches = await searchAll(variants, goal, pass)
  // Where even no limit is within the budget, the lowest limit that discards nothing says so.
  const unlimited = searches.filter(({ next }) => !goal.smallest && next === undefined)
  const lossless = await searchAll(
    unlimited.map(({ variant }) => variant),
    keepGoal('keep 100%'),
    pass,
  )
  const unanswered: Unanswered[] = []
  const found = searches.flatMap((search): Found[] => {
    const free = lossless.find(({ variant }) => variant === search.variant)
    const { answer, next } = free ?? search
    if (!answer) {
      const { key_field, window } = search.variant.options
      const reason = refusal(search)
      unanswered.push({ key_field: keyText(key_field) ?? null, window_ms: window!, reason })
      return []
    }
    const { does } = search.answer ?? answer
    const variant = variantOf({ ...search.variant.given, [search.option]: answer.limit }, {})
    const { text, figures } = does
    const after = free || !next ? null : { limit: next.limit, does: next.does.text }
    const kind = goal.smallest ? ('lowest' as const) : ('highest' as const)
    return [{ variant, search: { goal: goal.text, kind, does: text, figures, needed: !free, next: after } }]
  })
  if (found.length === 0) throw new Error(unanswered.map(({ reason }) => reason).join('\n'))
  return { found, unanswered }
}

async function searchAll(variants: readonly Variant[], goal: Goal, pass: Pass): Promise<LimitSearch[]> {
  const searches = variants.map(variant => new LimitSearch(variant, goal))
  while (searches.some(({ isDone }) => !isDone)) {
    const { visitor } = await pass(context => new SearchPass(searches, context))
    visitor.end()
  }
  return searches
}

function refusal({ variant: { options }, goal, next, highest }: LimitSearch): string {
  const key = keyText(options.key_field)
  const throttle = `in ${windowText(limitsOf(options)[0]!.windowMs)}${key === undefined ? '' : ` by ${key}`}`
  const [edge, help] = goal.smallest
    ? [highest, 'events are discarded for another reason, such as max_keys']
    : [1, 'take a longer window, or a key with fewer values']
  return `no limit ${throttle} ${goal.text}: limit ${number(edge)} ${next!.does.text}; ${help}`
}
