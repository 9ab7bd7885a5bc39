import type { ProcessorContext } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import { discard, LATER, MAIN } from '../../core/processor.js'
import type { Clock } from '../../lib/time.js'
import { NO_BACKEND } from '../../throttle/cluster/cluster-decider.js'
import { type DeciderOptions, DISCARD, FULL, TOO_LATE, WAITS } from '../../throttle/decider.js'
import { EventKey } from '../../throttle/event-key.js'
import { Annotation, type Refusal } from './annotate.js'
import { backlogReport } from './backlog.js'
import type { ThrottleOptions } from './options.js'
import { OneInN } from './over-limit.js'
import { type THROTTLE_REASONS, throttlePlan } from './plan.js'
import { DECISIONS, DECISIONS_HELP, type ThrottleMetrics } from './throttle-metrics.js'

/** What RefusedEvents passes to a successor with the same options. */
export interface RefusedState {
  readonly oneIn: OneInN | undefined
}

/** The decisions about the events of a batch, and how many there are of each. */
interface Decisions {
  readonly decisions: Uint8Array
  readonly counts: Uint32Array
}

type Context = Pick<ProcessorContext, 'id' | 'log' | 'clock' | 'editor'> & { readonly metrics: ThrottleMetrics }

/** Carries out what the options want for the events that a throttle did not let pass. */
export class RefusedEvents {
  readonly #clock: Clock
  /** The column's value for each decision. */
  readonly #values = new Uint8Array(NO_BACKEND + 1)
  /** The same for backlog. */
  readonly #backlogValues = new Uint8Array(NO_BACKEND + 1)
  readonly #reportBacklog: (events: number) => void
  readonly #key: EventKey
  readonly #oneIn: OneInN | undefined
  readonly #marks: boolean
  readonly #isShadow: boolean
  readonly #annotation: Annotation | undefined
  /** Whether all there is to do is to discard them. */
  readonly #isPlain: boolean
  readonly #refusal: Refusal
  readonly #discarded: { value: number }
  readonly #marked: { value: number }
  readonly #sampled: { value: number }

  constructor(options: ThrottleOptions, decider: DeciderOptions, context: Context, before?: RefusedState) {
    const { mode, over_limit: over, annotate } = options
    const reasons: readonly string[] = throttlePlan(options).reasons
    const columnOf = (reason: keyof typeof THROTTLE_REASONS) => discard(reasons.indexOf(reason))
    this.#clock = context.clock
    this.#values[DISCARD] = columnOf('throttled')
    this.#values[WAITS] = LATER
    if (reasons.includes('max_keys')) this.#values[FULL] = columnOf('max_keys')
    if (reasons.includes('late')) this.#values[TOO_LATE] = columnOf('late')
    if (reasons.includes('no_backend')) this.#values[NO_BACKEND] = columnOf('no_backend')
    this.#backlogValues.set(this.#values)
    if (reasons.includes('throttled_backlog')) this.#backlogValues[DISCARD] = columnOf('throttled_backlog')
    this.#reportBacklog = options.time_field ? () => {} : backlogReport(context.log, context.clock)
    this.#key = new EventKey(decider.keyFields)
    this.#isShadow = mode === 'shadow'
    this.#marks = over === 'mark'
    const oneIn = typeof over === 'object' && 'pass_one_in' in over ? over.pass_one_in : 0
    if (oneIn > 0) this.#oneIn = before?.oneIn ?? new OneInN(oneIn, decider.maxKeys, decider.seed)
    if (!this.#isShadow && (annotate || this.#marks)) this.#annotation = new Annotation(context)
    this.#isPlain = !(this.#isShadow || this.#oneIn || this.#annotation)
    const { limit, windowMs } = decider.limits[0]!
    this.#refusal = { limit, windowMs, count: limit }
    const count = (decision: string) => context.metrics.counter(DECISIONS, DECISIONS_HELP, { decision })
    this.#discarded = count(this.#isShadow ? 'would_discard' : 'discarded')
    this.#marked = this.#marks ? count(this.#isShadow ? 'would_mark' : 'marked') : { value: 0 }
    this.#sampled = this.#oneIn ? count(this.#isShadow ? 'would_sample' : 'sampled') : { value: 0 }
  }

  get state(): RefusedState {
    return { oneIn: this.#oneIn }
  }

  /** Call for each batch with events that do not pass. */
  carryOut(batch: EventBatch, { decisions, counts }: Decisions, to: Uint8Array): void {
    const values = batch.isBacklog ? this.#backlogValues : this.#values
    let overLimit = counts[DISCARD]!
    if (this.#isPlain) {
      this.#discarded.value += overLimit + counts[FULL]! + (counts[NO_BACKEND] ?? 0)
      for (let i = 0; i < batch.length; i++) to[i] = values[decisions[i]!]!
    } else {
      const now = this.#clock.now()
      this.#oneIn?.advance(now)
      overLimit = 0
      for (let i = 0; i < batch.length; i++) {
        const decision = decisions[i]!
        const value = values[decision]!
        if (value === MAIN || (value !== LATER && !this.#carryOutOne(batch, i, decision, now))) continue
        to[i] = value
        if (decision === DISCARD) overLimit++
      }
    }
    if (batch.isBacklog && overLimit > 0) this.#reportBacklog(overLimit)
  }

  /** Returns whether the event is discarded. */
  #carryOutOne(batch: EventBatch, i: number, decision: number, now: number): boolean {
    const key = this.#key
    key.load(batch, i)
    if (decision === DISCARD) {
      if (this.#oneIn?.passes(key, now)) {
        this.#sampled.value++
        return false
      }
      if (this.#marks) {
        this.#marked.value++
        this.#annotation?.add(batch, i, key, this.#refusal)
        return false
      }
    }
    if (decision !== TOO_LATE) this.#discarded.value++
    this.#annotation?.add(batch, i, key, this.#refusal)
    return !this.#isShadow
  }
}
