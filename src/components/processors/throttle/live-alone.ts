import type { EventBatch } from '../../../core/event/batch.js'
import type { Clock } from '../../../lib/time.js'
import { createClockDecider, type Decider, type DeciderOptions } from '../../throttle/decider.js'
import type { Limit } from '../../throttle/limit.js'
import type { Rule } from '../../throttle/rules/rules.js'

/**
 * A limit of events that lets through as much in the long run, and once as much again: a daemon that catches up reads in
 * bursts what an app writes steadily. Others stay as they are: with gcra an event of any cost passes.
 */
function tolerant(limit: Limit): Limit {
  const { mode, unit, burst = limit.limit - 1 } = limit
  if (mode === 'quota' || (mode !== 'gcra' && unit !== 'events')) return limit
  return { ...limit, mode: 'gcra', burst: burst + limit.limit }
}

const tolerantRule = (rule: Rule): Rule => ({ ...rule, limits: rule.limits.map(tolerant) })

/**
 * Decides on live events as if there were nothing else, at the times at which they arrived: in windows of its own, which
 * begin empty. An event that would have passed so is not over the limit because of its app.
 */
export class LiveAlone {
  readonly #clock: Clock
  readonly #options: DeciderOptions
  /** The oldest arrival that is believed, in milliseconds ago. */
  readonly #mostMs: number
  #before: unknown
  #decider: Decider | undefined
  #rules: readonly Rule[] | undefined
  #at = 0
  #wall = 0

  /** `before`: the windows of a predecessor. */
  constructor(options: DeciderOptions, clock: Clock, mostMs: number, before: unknown) {
    // What finds no room here has to wait at most.
    const limits = options.limits.map(tolerant)
    this.#options = { ...options, limits, exclude: undefined, onMaxKeys: 'pass', persists: false }
    this.#clock = clock
    this.#mostMs = mostMs
    this.#rules = options.rules?.map(tolerantRule)
    this.#before = before
  }

  /** The windows, for a successor with the same options. */
  get windows(): unknown {
    return this.#decider?.limiter ?? this.#before
  }

  setRules(rules: readonly Rule[]): void {
    this.#rules = rules.map(tolerantRule)
    this.#decider?.setRules(this.#rules)
  }

  /** Begins a batch. Returns for how long it was on its way. */
  begin(batch: EventBatch): number {
    const wall = this.#clock.wall()
    const agoMs = Math.min(Math.max(0, wall - batch.receivedAt), this.#mostMs)
    this.#at = this.#clock.now() - agoMs
    this.#wall = wall - agoMs
    this.#decider?.limiter.advance(this.#at)
    return agoMs
  }

  /** Whether event `i` of the batch is within its limits. */
  lets(batch: EventBatch, i: number): boolean {
    this.#decider ??= createClockDecider(
      { ...this.#options, rules: this.#rules },
      { now: () => this.#at, wall: () => this.#wall },
      this.#before,
    )
    return this.#decider.lets(batch, i)
  }

  /** Forgets everything. */
  clear(): void {
    this.#before = undefined
    this.#decider = undefined
  }
}
