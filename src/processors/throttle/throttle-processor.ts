import { randomInt } from 'node:crypto'
import type { ComponentContext, HandoverState, KeyWatch, Processor } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { FieldReader } from '../../core/event/field-reader.js'
import { discard } from '../../core/processor.js'
import type { Clock } from '../../lib/time.js'
import { BusiestKeys } from '../../throttle/busiest-keys.js'
import { DISCARD, EXCLUDED, FAIL_OPEN, FULL, PASS, TOO_LATE } from '../../throttle/decider.js'
import { EventDecider, looksLikeSeconds } from '../../throttle/event-decider.js'
import { LATE } from '../../throttle/event-windows.js'
import { type BatchDecider, createDecider, windowsOf } from '../../throttle/live-decider.js'
import { backlogReport } from './backlog.js'
import { deciderOptions, type ThrottleOptions } from './options.js'
import { type THROTTLE_REASONS, throttlePlan } from './plan.js'

export class ThrottleProcessor implements Processor {
  readonly #clock: Clock
  readonly #decider: BatchDecider
  readonly #passed: { value: number }
  readonly #excluded: { value: number }
  readonly #discarded: { value: number }
  readonly #failOpen: { value: number }
  readonly #countInEventTime: (() => void) | undefined
  readonly #keyFields: readonly FieldReader[]
  /** The column's value for each decision. */
  readonly #values = new Uint8Array(8)
  /** The same for backlog. */
  readonly #backlogValues = new Uint8Array(8)
  /** Counts backlog that passes; undefined: it is decided on. */
  readonly #passedBacklog: { value: number } | undefined
  readonly #reportBacklog: (events: number) => void
  /** Key counts of the current observers. */
  readonly #watches = new Set<BusiestKeys>()
  #stands = 1

  constructor(options: ThrottleOptions, context: ComponentContext) {
    const { clock, metrics, log } = context
    this.#clock = clock
    const reasons: readonly string[] = throttlePlan(options).reasons
    const columnOf = (reason: keyof typeof THROTTLE_REASONS) => discard(reasons.indexOf(reason))
    this.#values[DISCARD] = columnOf('throttled')
    if (reasons.includes('max_keys')) this.#values[FULL] = columnOf('max_keys')
    if (reasons.includes('late')) this.#values[TOO_LATE] = columnOf('late')
    this.#backlogValues.set(this.#values)
    if (reasons.includes('throttled_backlog')) this.#backlogValues[DISCARD] = columnOf('throttled_backlog')
    this.#reportBacklog = options.time_field ? () => {} : backlogReport(log, clock)
    const compiled = deciderOptions(options, context, randomInt(2 ** 31))
    const decider = createDecider(compiled, clock, context.inherited)
    this.#decider = decider
    this.#keyFields = compiled.keyFields
    const count = (decision: string) =>
      metrics.counter('sluice_throttle_events_total', 'Events by decision of the throttle.', { decision })
    this.#passed = count('passed')
    this.#excluded = count('excluded')
    this.#discarded = count('discarded')
    this.#failOpen = count('fail_open')
    if (!options.time_field && options.on_backlog === 'pass') this.#passedBacklog = count('backlog')
    const help = 'Buckets in memory, without the default one.'
    metrics.gauge('sluice_throttle_buckets', help, () => decider.buckets)
    if (decider instanceof EventDecider) this.#countInEventTime = countInEventTime(decider, options, context)
  }

  /** The buckets with their open windows. */
  handOver(): HandoverState {
    return { value: windowsOf(this.#decider) }
  }

  watchKeys(): KeyWatch {
    const keys = new BusiestKeys(this.#keyFields, this.#clock, this.#stands)
    this.#watches.add(keys)
    return {
      end: most => {
        this.#watches.delete(keys)
        this.#stands = keys.stands
        return keys.busiest(most)
      },
    }
  }

  process(batch: EventBatch, to: Uint8Array): void {
    if (batch.isBacklog && this.#passedBacklog) {
      this.#passedBacklog.value += batch.length
      return
    }
    const { counts, decisions } = this.#decider.decide(batch)
    if (this.#watches.size > 0) for (const keys of this.#watches) keys.see(batch, decisions)
    this.#passed.value += counts[PASS]!
    this.#excluded.value += counts[EXCLUDED]!
    this.#failOpen.value += counts[FAIL_OPEN]!
    this.#discarded.value += counts[DISCARD]! + counts[FULL]!
    this.#countInEventTime?.()
    if (counts[DISCARD]! + counts[FULL]! + (counts[TOO_LATE] ?? 0) === 0) return
    const values = batch.isBacklog ? this.#backlogValues : this.#values
    if (batch.isBacklog && counts[DISCARD]! > 0) this.#reportBacklog(counts[DISCARD]!)
    for (let i = 0; i < batch.length; i++) to[i] = values[decisions[i]!]!
  }
}

/** Creates a function that updates the counters for event time after each batch. */
function countInEventTime(
  decider: EventDecider,
  { time_field }: ThrottleOptions,
  { metrics, log }: ComponentContext,
): () => void {
  const { limiter } = decider
  const late = metrics.counter('sluice_throttle_events_total', 'Events by decision of the throttle.', {
    decision: 'late',
  })
  const untimed = (reason: string) =>
    metrics.counter('sluice_throttle_untimed_events_total', 'Events that were counted at their arrival, by reason.', {
      reason,
    })
  const [unreadable, ahead] = [untimed('unreadable'), untimed('ahead')]
  metrics.gauge(
    'sluice_throttle_kept_windows',
    'Windows in memory, without the newest of each bucket.',
    () => limiter.kept,
  )
  const forgotten = metrics.counter(
    'sluice_throttle_forgotten_windows_total',
    'Windows that were dropped early because there was no room.',
  )
  // The predecessor of an inherited limiter has counted these.
  let counted = limiter.room.forgotten
  let warned = false
  return () => {
    late.value += decider.counts[LATE]! + decider.counts[TOO_LATE]!
    unreadable.value += decider.unreadable
    ahead.value += decider.ahead
    forgotten.value += limiter.room.forgotten - counted
    counted = limiter.room.forgotten
    if (warned || !looksLikeSeconds(limiter.progress.oldest)) return
    warned = true
    log.warn({ field: time_field?.text }, 'time_field must contain milliseconds; its numbers look like seconds')
  }
}
