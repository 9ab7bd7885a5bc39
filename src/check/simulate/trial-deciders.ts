import type { EventBatch } from '../../core/event/batch.js'
import { limitsOf } from '../../processors/throttle/limit-options.js'
import { longestWaits } from '../../processors/throttle/longest-waits.js'
import { deciderOptions, type ThrottleOptions } from '../../processors/throttle/options.js'
import { Decider, type DeciderOptions } from '../../throttle/decider.js'
import { EXCLUDED, FAIL_OPEN, TOO_LATE } from '../../throttle/decisions.js'
import { EventDecider } from '../../throttle/event-decider.js'
import { LATE } from '../../throttle/event-windows.js'
import { DISCARD, FULL } from '../../throttle/limiter.js'
import { EXEMPT, RankedDecider, REFUSED, UNCOUNTED } from '../../throttle/ranked-decider.js'
import { GridTrials } from './grid-trials.js'
import { CountingTrial, decideOne, enterBatch, STOPPED_CLOCK, type TrialDecider } from './trial-decider.js'
import { TrialSamples } from './trial-samples.js'
import type { FieldContext } from './trials.js'
import { WaitingTrial } from './waiting-trial.js'

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
  'max_delay',
  'scope',
  'group',
  'redis',
  'accuracy',
  'on_backend_failure',
  'expected_members',
])

/** Whether throttles that differ from this one in their limit alone can be decided in one step. */
export function isRankable(options: ThrottleOptions): boolean {
  if (options.limit === undefined || oneInOf(options) > 0 || longestWaits(options).live > 0) return false
  if (options.window_mode !== 'fixed' && options.window_mode !== 'aligned') return false
  return Object.entries(options).every(([name, value]) => value === undefined || RANKABLE.has(name))
}

/** Whether throttles that differ from this one in their limits alone can share their buckets. */
export function isShareable(options: ThrottleOptions): boolean {
  return options.limits === undefined && longestWaits(options).live === 0
}

/** Of how many events over the limit one passes; 0: none does. */
function oneInOf({ over_limit }: ThrottleOptions): number {
  return typeof over_limit === 'object' && 'pass_one_in' in over_limit ? over_limit.pass_one_in : 0
}

/** Creates the decider of one trial, or of several that can be decided together: if rankable, the lowest limit first. */
export function createTrialDecider(trials: readonly ThrottleOptions[], context: FieldContext): TrialDecider {
  const [first] = trials as [ThrottleOptions]
  const compiled = deciderOptions(first, context, 0)
  const waitMs = longestWaits(first).live
  if (waitMs > 0) return new WaitingTrial(compiled, waitMs)
  const oneIn = oneInOf(first)
  const samples = oneIn > 0 ? new TrialSamples(oneIn, trials.length, compiled) : undefined
  if (trials.length === 1) return new SingleTrial(compiled, samples)
  if (!isRankable(first)) return new GridTrials(compiled, trials.map(limitsOf), samples)
  const limits = trials.map(({ limit }) => limit!)
  return new RankedTrials(compiled, limits)
}

/** The decider of the daemon, for one trial with any options. */
class SingleTrial extends CountingTrial {
  #late = 0
  readonly #decider: Decider | EventDecider
  readonly #samples: TrialSamples | undefined
  readonly #sampled = new Uint8Array(1)

  constructor(options: DeciderOptions, samples: TrialSamples | undefined) {
    super()
    this.#samples = samples
    this.#decider = options.eventTime
      ? new EventDecider(options, options.eventTime, STOPPED_CLOCK)
      : new Decider(options)
  }

  get byDefault(): boolean {
    return this.#decider.byDefault
  }

  override late(): number {
    return this.#late
  }

  override enter(batch: EventBatch): void {
    enterBatch(this.#decider, batch)
  }

  lost(batch: EventBatch, i: number, now: number): number {
    switch (decideOne(this.#decider, batch, i, now)) {
      case EXCLUDED:
        return EXEMPT
      case FAIL_OPEN:
        this.failedOpen++
        return 0
      case FULL:
        this.refused++
        return 1
      case LATE:
        this.#late++
        return 0
      case TOO_LATE:
        this.#late++
        return 1
      case DISCARD:
        this.#sampled[0] = 1
        this.#samples?.apply(batch, i, now, this.#sampled)
        return this.#sampled[0]
      default:
        return 0
    }
  }
}

/** One decider for several limits, of which each event has a number in its window. */
class RankedTrials extends CountingTrial {
  readonly #decider: RankedDecider
  readonly #limits: readonly number[]

  constructor(options: DeciderOptions, limits: readonly number[]) {
    super()
    this.#decider = new RankedDecider(options)
    this.#limits = limits
  }

  get byDefault(): boolean {
    return this.#decider.byDefault
  }

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
