import { limitsOf } from '../../../components/processors/throttle/limit-options.js'
import { DISCARD } from '../../../components/throttle/decisions.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { Does, Goal, Meter } from './goal.js'
import type { Visitor } from './replay.js'
import { createTrialDecider, type TrialDecider } from './trial-decider.js'
import type { FieldContext } from './trials.js'
import type { Variant } from './variants.js'

/** The highest values of the options that are searched for. */
const HIGHEST = { limit: 0xffffffff, limit_bytes: 1e15 } as const
/** Limits that are tried in one pass. */
const AT_ONCE = 9

/** A limit that was tried. */
export interface Tried {
  readonly limit: number
  readonly does: Does
}

/**
 * Finds the limit of one variant at which a goal begins to be achieved, or ends to be. Each pass over the input tries
 * many limits between two bounds, and the bounds move together.
 */
export class LimitSearch {
  readonly variant: Variant
  readonly goal: Goal
  /** The option that is searched for. */
  readonly option: keyof typeof HIGHEST
  /** The highest limit before the change, and the lowest one behind it; undefined if none was found yet. */
  #below: Tried | undefined
  #above: Tried | undefined
  #isDone = false

  constructor(variant: Variant, goal: Goal) {
    this.variant = variant
    this.goal = goal
    const { limit, limit_bytes } = variant.options
    this.option = limit === undefined && limit_bytes !== undefined ? 'limit_bytes' : 'limit'
  }

  get highest(): number {
    return HIGHEST[this.option]
  }

  get isDone(): boolean {
    return this.#isDone
  }

  /** The limit that achieves the goal, and the next one that does not; undefined if there is none. */
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

  /** Takes the results of a pass. Throws if nothing can achieve the goal. */
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
    this.#isDone = high - low <= 1
  }
}

/** One search in one pass. */
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
    this.#deciders = this.limits.map(limit => createTrialDecider({ ...options, [search.option]: limit }, context))
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

  /** Called after the last event. */
  end(): void {
    for (const { search, limits, meter } of this.#attempts) search.narrow(limits, meter)
  }
}
