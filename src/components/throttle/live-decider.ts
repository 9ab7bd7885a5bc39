import type { EventBatch } from '../../core/event/batch.js'
import type { Clock } from '../../lib/time.js'
import { Decider, type DeciderOptions, type Refusal } from './decider.js'
import { KeyedLimiter } from './keyed-limiter.js'
import type { Level } from './limit.js'
import { DISCARD } from './limiter.js'
import type { Rule } from './rules.js'

/** How far the wall clock may drift before aligned windows follow it. */
const DRIFT_MS = 1000

/**
 * A Decider in clock time: the monotonic clock, so that setting the clock has no effect. Aligned windows start at
 * multiples since the epoch, and quotas are of calendar periods, so they do follow the wall clock, at most a second
 * late.
 */
export class LiveDecider {
  readonly #clock: Clock
  readonly #decider: Decider
  readonly #followsWall: boolean

  /** `before`: the windows of a predecessor with the same options. */
  constructor(options: DeciderOptions, clock: Clock, before?: KeyedLimiter) {
    this.#clock = clock
    this.#decider = new Decider(options, before)
    this.#followsWall =
      options.rules !== undefined || options.limits.some(({ mode }) => mode === 'aligned' || mode === 'quota')
    if (this.#followsWall && !before) this.#decider.limiter.wall.offsetMs = clock.wall() - clock.now()
  }

  /** Decides all events of a batch at the current time; the result is valid until the next call. */
  decide(batch: EventBatch): Pick<Decider, 'decisions' | 'counts' | 'keys'> {
    const now = this.#now()
    this.#decider.decide(batch, now)
    return this.#decider
  }

  /** Decides on one event at the current time. Returns whether it is within its limits. Idle buckets are not dropped. */
  lets(batch: EventBatch, i: number): boolean {
    return this.#decider.decideOne(batch, i, this.#now()) !== DISCARD
  }

  /** What event `i` costs limits that are not of bytes, in what windows count (`scaleOf`). */
  costOf(batch: EventBatch, i: number): number {
    return this.#decider.costOf(batch, i)
  }

  /** Why event `i` of the last batch was discarded; undefined if no limit did. Slow: not for each event. */
  refusal(batch: EventBatch, i: number): Refusal | undefined {
    return this.#decider.refusal(batch, i)
  }

  /** When event `i` of the last batch, which was discarded, fits if nothing else passes, by the monotonic clock. */
  roomAt(batch: EventBatch, i: number): number {
    return this.#decider.roomAt(batch, i)
  }

  /** The level of the bucket of event `i` of the last batch; see KeyedDecider. */
  level(batch: EventBatch, i: number): Level | undefined {
    return this.#decider.level(batch, i, this.#clock.now())
  }

  /** The rules, in the place of those before; only if the options have some. */
  setRules(rules: readonly Rule[]): void {
    this.#decider.setRules(rules)
  }

  /** The rule that holds for event `i` of a batch. */
  ruleOf(batch: EventBatch, i: number): Rule | undefined {
    return this.#decider.ruleOf(batch, i)
  }

  /** The windows, for a successor with the same options. */
  get limiter(): KeyedLimiter {
    return this.#decider.limiter
  }

  /** Number of buckets in memory, without the default one. */
  get buckets(): number {
    this.limiter.advance(this.#now())
    return this.limiter.keys
  }

  #now(): number {
    const now = this.#clock.now()
    if (!this.#followsWall) return now
    const { wall } = this.limiter
    const offsetMs = this.#clock.wall() - now
    if (Math.abs(offsetMs - wall.offsetMs) > DRIFT_MS) {
      // The clock was set, or the machine slept. If set back, open windows would last until the old time is reached again.
      if (offsetMs < wall.offsetMs) this.limiter.restartAligned()
      wall.offsetMs = offsetMs
    }
    wall.latestMs = Math.max(wall.latestMs, now + wall.offsetMs)
    return now
  }
}

/** `before`: the windows of a predecessor with the same options. */
export function createLiveDecider(options: DeciderOptions, clock: Clock, before?: unknown): LiveDecider {
  return new LiveDecider(options, clock, before instanceof KeyedLimiter ? before : undefined)
}
