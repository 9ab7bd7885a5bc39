import type { EventBatch } from '../../core/event/batch.js'
import { deciderOptions, type ThrottleOptions } from '../../processors/throttle/options.js'
import { Decider, type DeciderOptions, DISCARD, EXCLUDED, FAIL_OPEN, FULL, TOO_LATE } from '../../throttle/decider.js'
import { EventDecider } from '../../throttle/event-decider.js'
import { LATE } from '../../throttle/event-windows.js'
import { EXEMPT, RankedDecider, REFUSED, UNCOUNTED } from '../../throttle/ranked-decider.js'
import type { FieldContext } from './trials.js'

/** The time is that of the events. */
export const STOPPED_CLOCK = { now: () => 0, wall: () => 0 }

/** Options with which windows open at the same times whatever the limit is, or that do not decide about events. */
const RANKABLE = new Set([
  'limit',
  'window',
  'key_field',
  'exclude',
  'window_mode',
  'max_keys',
  'on_max_keys',
  'mode',
  'over_limit',
  'annotate',
  'summary',
  'per_key_metrics',
  'persist',
  'on_backlog',
  'scope',
  'group',
  'redis',
  'accuracy',
  'on_backend_failure',
  'expected_members',
])

/** Whether throttles that differ from this one in their limit alone can be decided in one step. */
export function isRankable(options: ThrottleOptions): boolean {
  if (options.limit === undefined) return false
  if (options.window_mode !== 'fixed' && options.window_mode !== 'aligned') return false
  return Object.entries(options).every(([name, value]) => value === undefined || RANKABLE.has(name))
}

/** Decides for trials that differ in their limit alone, the lowest first. */
export interface TrialDecider {
  /** Events of keys beyond `max_keys`: passed uncounted, and discarded. */
  readonly failedOpen: number
  readonly refused: number
  /** Events that are later than allowed, if the throttle has windows in event time. */
  readonly late: number
  /** Whether the last event was counted in the default bucket. */
  readonly byDefault: boolean
  /** Called before the events of a batch. */
  enter(batch: EventBatch): void
  /** How many trials discard an event, which are the first ones; EXEMPT if it is excluded. */
  lost(batch: EventBatch, i: number, now: number): number
}

/** Creates the decider of one trial, or of several that are rankable. */
export function createTrialDecider(trials: readonly ThrottleOptions[], context: FieldContext): TrialDecider {
  const compiled = deciderOptions(trials[0]!, context, 0)
  if (trials.length === 1) return new SingleTrial(compiled)
  const limits = trials.map(({ limit }) => limit!)
  return new RankedTrials(compiled, limits)
}

/** The decider of the daemon, for one trial with any options. */
class SingleTrial implements TrialDecider {
  failedOpen = 0
  refused = 0
  late = 0
  readonly #decider: Decider | EventDecider

  constructor(options: DeciderOptions) {
    this.#decider = options.eventTime
      ? new EventDecider(options, options.eventTime, STOPPED_CLOCK)
      : new Decider(options)
  }

  get byDefault(): boolean {
    return this.#decider.byDefault
  }

  enter(batch: EventBatch): void {
    if (this.#decider instanceof EventDecider) this.#decider.enter(batch, 0, Number.NEGATIVE_INFINITY)
  }

  lost(batch: EventBatch, i: number, now: number): number {
    const decider = this.#decider
    if (decider instanceof Decider) decider.limiter.advance(now)
    switch (decider.decideOne(batch, i, now)) {
      case EXCLUDED:
        return EXEMPT
      case FAIL_OPEN:
        this.failedOpen++
        return 0
      case FULL:
        this.refused++
        return 1
      case LATE:
        this.late++
        return 0
      case TOO_LATE:
        this.late++
        return 1
      case DISCARD:
        return 1
      default:
        return 0
    }
  }
}

/** One decider for several limits. */
class RankedTrials implements TrialDecider {
  failedOpen = 0
  refused = 0
  readonly late = 0
  readonly #decider: RankedDecider
  readonly #limits: readonly number[]

  constructor(options: DeciderOptions, limits: readonly number[]) {
    this.#decider = new RankedDecider(options)
    this.#limits = limits
  }

  get byDefault(): boolean {
    return this.#decider.byDefault
  }

  enter(): void {}

  lost(batch: EventBatch, i: number, now: number): number {
    const rank = this.#decider.rank(batch, i, now)
    if (rank === EXEMPT) return EXEMPT
    if (rank === UNCOUNTED) this.failedOpen++
    else if (rank === REFUSED) this.refused++
    const limits = this.#limits
    let lost = 0
    while (lost < limits.length && limits[lost]! < rank) lost++
    return lost
  }
}
