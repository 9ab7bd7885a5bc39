import { randomInt } from 'node:crypto'
import { pathsOf } from '../condition/condition.js'
import {
  type ComponentContext,
  defineProcessor,
  type HandoverState,
  type KeyWatch,
  type Processor,
} from '../core/component.js'
import type { EventBatch } from '../core/event/batch.js'
import type { FieldReader } from '../core/event/field-reader.js'
import { discard, type Plan } from '../core/processor.js'
import type { Clock } from '../lib/time.js'
import { BusiestKeys } from '../throttle/busiest-keys.js'
import { DISCARD, EXCLUDED, FAIL_OPEN, FULL, PASS, TOO_LATE } from '../throttle/decider.js'
import { EventDecider, looksLikeSeconds } from '../throttle/event-decider.js'
import { LATE } from '../throttle/event-windows.js'
import { type BatchDecider, createDecider, windowsOf } from '../throttle/live-decider.js'
import { explainThrottle } from './throttle/explain.js'
import { deciderOptions, type ThrottleOptions, throttleOptions } from './throttle/options.js'

const REASONS = {
  throttled: 'Beyond `limit`.',
  max_keys: 'A new bucket while `max_keys` others are in use, with `on_max_keys: discard`.',
  late: 'Later than `allowed_lateness`, with `on_late: discard`.',
} as const

export const throttlePlan = ({ on_max_keys, on_late }: ThrottleOptions) =>
  ({
    reasons: [
      'throttled',
      ...(on_max_keys === 'discard' ? (['max_keys'] as const) : []),
      ...(on_late === 'discard' ? (['late'] as const) : []),
    ],
  }) satisfies Plan & { reasons: (keyof typeof REASONS)[] }

export class ThrottleProcessor implements Processor {
  readonly #clock: Clock
  readonly #decider: BatchDecider
  readonly #passed: { value: number }
  readonly #excluded: { value: number }
  readonly #discarded: { value: number }
  readonly #failOpen: { value: number }
  readonly #countInEventTime: (() => void) | undefined
  readonly #keyField: FieldReader | undefined
  /** The column's value for each decision. */
  readonly #values = new Uint8Array(8)
  /** Key counts of the current observers. */
  readonly #watches = new Set<BusiestKeys>()
  #stands = 1

  constructor(options: ThrottleOptions, context: ComponentContext) {
    const { clock, metrics } = context
    this.#clock = clock
    const reasons: readonly string[] = throttlePlan(options).reasons
    const columnOf = (reason: keyof typeof REASONS) => discard(reasons.indexOf(reason))
    this.#values[DISCARD] = columnOf('throttled')
    if (reasons.includes('max_keys')) this.#values[FULL] = columnOf('max_keys')
    if (reasons.includes('late')) this.#values[TOO_LATE] = columnOf('late')
    const decider = createDecider(deciderOptions(options, context, randomInt(2 ** 31)), clock, context.inherited)
    this.#decider = decider
    this.#keyField = options.key_field && context.field(options.key_field)
    const count = (decision: string) =>
      metrics.counter('sluice_throttle_events_total', 'Events by decision of the throttle.', { decision })
    this.#passed = count('passed')
    this.#excluded = count('excluded')
    this.#discarded = count('discarded')
    this.#failOpen = count('fail_open')
    const help = 'Buckets in memory, without the default one.'
    metrics.gauge('sluice_throttle_buckets', help, () => decider.buckets)
    if (decider instanceof EventDecider) this.#countInEventTime = countInEventTime(decider, options, context)
  }

  /** The buckets with their open windows. */
  handOver(): HandoverState {
    return { value: windowsOf(this.#decider) }
  }

  watchKeys(): KeyWatch {
    const keys = new BusiestKeys(this.#keyField, this.#clock, this.#stands)
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
    const { counts, decisions } = this.#decider.decide(batch)
    if (this.#watches.size > 0) for (const keys of this.#watches) keys.see(batch, decisions)
    this.#passed.value += counts[PASS]!
    this.#excluded.value += counts[EXCLUDED]!
    this.#failOpen.value += counts[FAIL_OPEN]!
    this.#discarded.value += counts[DISCARD]! + counts[FULL]!
    this.#countInEventTime?.()
    if (counts[DISCARD]! + counts[FULL]! + (counts[TOO_LATE] ?? 0) === 0) return
    const values = this.#values
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

export const throttle = defineProcessor({
  type: 'throttle',
  summary: 'Passes at most `limit` events of each bucket in each window, and discards the rest.',
  notes:
    'Without a `time_field`, time is the monotonic clock, read once per batch. ' +
    'An event whose time cannot be read, or is ahead of the clock by more than `allowed_lateness`, counts at its arrival. `docs/throttling.md` explains how to choose a window mode.',
  options: throttleOptions,
  plan: throttlePlan,
  reasons: REASONS,
  examples: [
    {
      title: 'One event per second and app; one host is exempt',
      yaml: `limit: 1\nwindow: 1 Seconds\nkey_field: .app\nexclude: if (.host equal 'edge-1')\n`,
      input: [
        '{"app":"a","host":"h1"}',
        '{"app":"b","host":"h2"}',
        '{"app":"a","host":"h1"}',
        '{"app":"a","host":"edge-1"}',
        '{"app":"b","host":"h1"}',
        '{"app":"a","host":"h2"}',
      ],
      output: ['{"app":"a","host":"h1"}', '{"app":"b","host":"h2"}', '{"app":"a","host":"edge-1"}'],
    },
    {
      title: 'One event per second, in event time: events pass as they would have when they were written',
      yaml: 'limit: 1\nwindow: 1 Seconds\ntime_field: .ts\n',
      input: [
        '{"ts":"2021-06-01T12:00:00.000Z","n":1}',
        '{"ts":"2021-06-01T12:00:00.900Z","n":2}',
        '{"ts":"2021-06-01T12:00:01.000Z","n":3}',
        '{"ts":"2021-06-01T12:00:00.950Z","n":4}',
        '{"ts":"2021-06-01T12:00:02.500Z","n":5}',
      ],
      output: [
        '{"ts":"2021-06-01T12:00:00.000Z","n":1}',
        '{"ts":"2021-06-01T12:00:01.000Z","n":3}',
        '{"ts":"2021-06-01T12:00:02.500Z","n":5}',
      ],
    },
  ],
  usesFields: ({ key_field, time_field, exclude }) => [
    ...(key_field ? [{ option: 'key_field', path: key_field, without: 'all events share one bucket' }] : []),
    ...(time_field ? [{ option: 'time_field', path: time_field, without: 'each event counts when it arrives' }] : []),
    ...pathsOf(exclude).map(path => ({ option: 'exclude', path })),
  ],
  create: (options, context) => new ThrottleProcessor(options, context),
  findings: (options, context) => explainThrottle(options, deciderOptions(options, context, 0), context),
})
