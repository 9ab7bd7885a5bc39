import type { EventBatch } from '../../core/event/batch.js'
import { Decider, type DeciderOptions } from '../../throttle/decider.js'
import { EXCLUDED, FAIL_OPEN } from '../../throttle/decisions.js'
import { EventDecider, EventLimiter } from '../../throttle/event-decider.js'
import type { Shared } from '../../throttle/event-windows.js'
import { KeyedLimiter } from '../../throttle/keyed-limiter.js'
import type { Limit } from '../../throttle/limit.js'
import { FULL } from '../../throttle/limiter.js'
import { EXEMPT } from '../../throttle/ranked-decider.js'
import { Room } from '../../throttle/row-room.js'
import type { Windows } from '../../throttle/windows.js'
import { GridEventWindows, GridWindows, type Outcome, TOO_LATE } from './grid-windows.js'
import { SlidingGrid } from './sliding-grid.js'
import { CountingTrial, decideOne, enterBatch, STOPPED_CLOCK } from './trial-decider.js'
import type { TrialSamples } from './trial-samples.js'

/** One decider whose buckets have the windows of all trials, those of the daemon. */
export class GridTrials extends CountingTrial {
  override readonly outcome: Outcome
  readonly #late: Float64Array
  readonly #decider: Decider | EventDecider
  readonly #samples: TrialSamples | undefined

  constructor(options: DeciderOptions, trials: readonly (readonly Limit[])[], samples: TrialSamples | undefined) {
    super()
    this.#samples = samples
    const outcome = new Uint8Array(trials.length)
    const late = new Float64Array(trials.length)
    this.outcome = outcome
    this.#late = late
    const { eventTime } = options
    if (eventTime) {
      const rooms = trials.map(() => new Room())
      const grid = { trials, outcome, onLate: eventTime.onLate, late, rooms }
      const create = ({ progress }: Shared) => new GridEventWindows(grid, progress)
      const limiter = new EventLimiter(options, eventTime, undefined, create)
      this.#decider = new EventDecider(options, eventTime, STOPPED_CLOCK, limiter)
    } else {
      const limiter = new KeyedLimiter(options, undefined, () => gridOf(trials, outcome))
      this.#decider = new Decider(options, limiter)
    }
  }

  get byDefault(): boolean {
    return this.#decider.byDefault
  }

  override late(trial: number): number {
    return this.#late[trial]!
  }

  override enter(batch: EventBatch): void {
    enterBatch(this.#decider, batch)
  }

  lost(batch: EventBatch, i: number, now: number): number {
    const { outcome } = this
    switch (decideOne(this.#decider, batch, i, now)) {
      case EXCLUDED:
        return EXEMPT
      case FAIL_OPEN:
        this.failedOpen++
        outcome.fill(0)
        break
      case FULL:
        this.refused++
        outcome.fill(1)
        break
      default:
        this.#samples?.apply(batch, i, now, outcome)
        this.#showLate()
    }
    let lost = 0
    while (lost < outcome.length && outcome[lost] === 1) lost++
    return lost
  }

  /** Shows trials that discard the event because it is late as such that discard it. */
  #showLate(): void {
    const { outcome } = this
    for (let k = outcome.indexOf(TOO_LATE); k >= 0; k = outcome.indexOf(TOO_LATE, k)) outcome[k] = 1
  }
}

/** The windows of the trials in clock time. */
function gridOf(trials: readonly (readonly Limit[])[], outcome: Outcome): Windows {
  const all = trials.flat()
  const isSimple =
    all.length === trials.length && all.every(({ mode, unit }) => mode === 'sliding' && unit === 'events')
  if (!isSimple) return new GridWindows(trials, outcome)
  const limits = all.map(({ limit }) => limit)
  return new SlidingGrid(limits, all[0]!.windowMs, outcome)
}
