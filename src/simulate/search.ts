import { limitsOf } from '../components/processors/throttle/options.js'
import { DISCARD } from '../components/throttle/decisions.js'
import type { EventBatch } from '../core/event/batch.js'
import { type Effect, type Goal, keepGoal, type Meter } from './goal.js'
import type { Replay, Visitor } from './replay.js'
import type { SearchResult, Unanswered } from './result.js'
import type { FieldContext } from './trial.js'
import { createTrialDecider, SharedKey, type TrialDecider } from './trial.js'
import { type Variant, variantOf } from './variants.js'
import { keyText, number, windowText } from './words.js'

/** By option: the highest value that is tried. */
const HIGHEST = { limit: 0xffffffff, limit_bytes: 1e15 } as const
const AT_ONCE = 9

interface Tried {
  readonly limit: number
  readonly does: Effect
}

/**
 * Finds the lowest or highest limit with which a variant achieves a goal. Each pass over the input tries several limits
 * between two bounds, and then narrows the bounds.
 */
class LimitSearch {
  readonly variant: Variant
  readonly goal: Goal
  readonly option: keyof typeof HIGHEST
  /**
   * The value of `achieves` changes at one limit. `#below` and `#above`: the closest limits tried on each side of this
   * change. Undefined until such a limit was tried.
   */
  #below: Tried | undefined
  #above: Tried | undefined
  isDone = false

  constructor(variant: Variant, goal: Goal) {
    this.variant = variant
    this.goal = goal
    const { limit, limit_bytes } = variant.options
    this.option = limit === undefined && limit_bytes !== undefined ? 'limit_bytes' : 'limit'
  }

  get highest(): number {
    return HIGHEST[this.option]
  }

  /**
   * `answer`: the limit that achieves the goal. `next`: the next limit, which misses the goal. Undefined: no such limit
   * was found.
   */
  get answer(): Tried | undefined {
    return this.goal.smallest ? this.#above : this.#below
  }
  get next(): Tried | undefined {
    return this.goal.smallest ? this.#below : this.#above
  }

  /** The limits to try in the next pass, ascending. */
  limits(): number[] {
    const low = this.#below?.limit ?? 0
    const high = this.#above?.limit ?? this.highest + 1
    const count = AT_ONCE
    if (high - low - 1 <= count) return Array.from({ length: high - low - 1 }, (_, n) => low + 1 + n)
    // The first pass finds the magnitude.
    if (low === 0) {
      const factor = high ** (1 / (count - 1))
      const limits = Array.from({ length: count }, (_, n) => Math.min(Math.round(factor ** n), high - 1))
      return [...new Set(limits)]
    }
    return Array.from({ length: count }, (_, n) => low + Math.ceil(((high - low) * (n + 1)) / (count + 1)))
  }

  /** Moves the bounds after a pass. Throws if no limit can achieve the goal. */
  narrow(limits: readonly number[], meter: Meter): void {
    if (meter.hopeless !== undefined) throw new Error(meter.hopeless)
    for (const [k, limit] of limits.entries()) {
      const tried = { limit, does: meter.result(k) }
      if (meter.achieves(k) === this.goal.smallest) {
        this.#above = tried
        break
      }
      this.#below = tried
    }
    const [low, high] = [this.#below?.limit ?? 0, this.#above?.limit ?? this.highest + 1]
    this.isDone = high - low <= 1
  }
}

class Attempt {
  readonly search: LimitSearch
  readonly limits: readonly number[]
  readonly meter: Meter
  readonly #deciders: readonly TrialDecider[]
  readonly #lost: Uint8Array

  constructor(search: LimitSearch, context: FieldContext) {
    const { options } = search.variant
    this.search = search
    this.limits = search.limits()
    const key = new SharedKey(options, context)
    const deciderOf = (limit: number) => createTrialDecider({ ...options, [search.option]: limit }, context, false, key)
    this.#deciders = this.limits.map(deciderOf)
    this.meter = search.goal.meter(this.limits.length, limitsOf(options)[0]!.windowMs, context)
    this.#lost = new Uint8Array(this.limits.length)
  }

  enter(batch: EventBatch): void {
    for (const decider of this.#deciders) decider.enter(batch)
  }

  visit(batch: EventBatch, i: number, now: number): void {
    const lost = this.#lost
    for (let k = 0; k < lost.length; k++) lost[k] = this.#deciders[k]!.decide(batch, i, now) === DISCARD ? 1 : 0
    this.meter.add(batch, i, now, lost)
  }
}

/** One pass over the input, for all searches that are not done. */
export class SearchPass implements Visitor {
  readonly #attempts: readonly Attempt[]

  constructor(searches: readonly LimitSearch[], context: FieldContext) {
    this.#attempts = searches.filter(({ isDone }) => !isDone).map(search => new Attempt(search, context))
  }

  enter(batch: EventBatch): void {
    for (const attempt of this.#attempts) attempt.enter(batch)
  }

  visit(batch: EventBatch, i: number, now: number): void {
    for (const attempt of this.#attempts) attempt.visit(batch, i, now)
  }

  end(): void {
    for (const { search, limits, meter } of this.#attempts) search.narrow(limits, meter)
  }
}

export interface FoundLimit {
  readonly variant: Variant
  readonly search: SearchResult
}

/** Replays the whole input. */
type Pass = (createVisitor: (context: FieldContext) => SearchPass) => Promise<Replay<SearchPass>>

export interface LimitTrials {
  readonly found: readonly FoundLimit[]
  readonly unanswered: readonly Unanswered[]
}

/** Finds the limit of each variant. Throws if no variant has a limit that achieves the goal. */
export async function findLimits(variants: readonly Variant[], goal: Goal, pass: Pass): Promise<LimitTrials> {
  const searches = await searchAll(variants, goal, pass)
  // If every limit stays within the budget, reports the lowest limit that discards nothing.
  const unlimited = searches.filter(({ next }) => !goal.smallest && next === undefined)
  const lossless = await searchAll(
    unlimited.map(({ variant }) => variant),
    keepGoal('keep 100%'),
    pass,
  )
  const unanswered: Unanswered[] = []
  const found = searches.flatMap((search): FoundLimit[] => {
    const free = lossless.find(({ variant }) => variant === search.variant)
    const { answer, next } = free ?? search
    if (!answer) {
      const { key_field, window } = search.variant.options
      // If each limit is within the budget, the second search has failed.
      const reason = refusal(free ?? search)
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
