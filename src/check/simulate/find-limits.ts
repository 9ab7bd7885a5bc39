import { limitsOf } from '../../processors/throttle/limit-options.js'
import { UsageError } from '../../terminal/command-line.js'
import { budgetGoal, type Goal, keepGoal } from './goal.js'
import type { Replay } from './replay.js'
import type { SearchResult } from './result.js'
import { LimitSearch, SearchPass } from './search.js'
import { keyText, windowText } from './settings.js'
import { number } from './table.js'
import type { FieldContext } from './trials.js'
import { type Variant, variantOf } from './variants.js'

export interface GoalOptions {
  readonly suggest: string | undefined
  readonly budget: string | undefined
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
export function goalOf({ suggest, budget, limit }: GoalOptions): Goal | undefined {
  const option = suggest === undefined ? '--budget' : '--suggest'
  if ((suggest ?? budget) !== undefined && limit.length > 0)
    throw new UsageError(`${option} finds the limit: leave out --limit`, 'simulate')
  if (suggest !== undefined && budget !== undefined)
    throw new UsageError('give --suggest or --budget, not both', 'simulate')
  if (suggest !== undefined) return keepGoal(suggest)
  return budget === undefined ? undefined : budgetGoal(budget)
}

/** Finds the limit of each variant. Throws if there is none. */
export async function findLimits(variants: readonly Variant[], goal: Goal, pass: Pass): Promise<Found[]> {
  const searches = await searchAll(variants, goal, pass)
  // Where even no limit is within the budget, the lowest limit that discards nothing says so.
  const unlimited = searches.filter(({ next }) => !goal.smallest && next === undefined)
  const lossless = await searchAll(
    unlimited.map(({ variant }) => variant),
    keepGoal('keep 100%'),
    pass,
  )
  return searches.map(search => {
    const free = lossless.find(({ variant }) => variant === search.variant)
    const { answer, next } = free ?? search
    if (!answer) throw new Error(refusal(search))
    const { does } = search.answer ?? answer
    const variant = variantOf({ ...search.variant.given, [search.option]: answer.limit }, {})
    const { text, figures } = does
    const after = free || !next ? null : { limit: next.limit, does: next.does.text }
    const kind = goal.smallest ? ('lowest' as const) : ('highest' as const)
    return { variant, search: { goal: goal.text, kind, does: text, figures, needed: !free, next: after } }
  })
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
