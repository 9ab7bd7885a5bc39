import { deciderOptions } from '../../../components/processors/throttle/decider-options.js'
import { longestWaits, type ThrottleOptions } from '../../../components/processors/throttle/options.js'
import { OneInN } from '../../../components/processors/throttle/over-limit.js'
import { EventKey } from '../../../components/throttle/buckets/event-key.js'
import { KeyedBuckets } from '../../../components/throttle/buckets/keyed-buckets.js'
import type { Decider, DeciderOptions } from '../../../components/throttle/decider.js'
import { DISCARD, EXCLUDED, FAIL_OPEN, FULL, LATE, PASS, TOO_LATE } from '../../../components/throttle/decisions.js'
import { createDecider } from '../../../components/throttle/event/timing.js'
import { BucketColumns } from '../../../components/throttle/windows.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { FieldContext } from './trials.js'

/** The time is that of the events. */
const STOPPED_CLOCK = { now: () => 0, wall: () => 0 }

/** What becomes of an event. */
export type Outcome = typeof PASS | typeof DISCARD | typeof EXCLUDED

/** Decides as the daemon does, on one event after the other, and counts what is remarkable. */
export abstract class TrialDecider {
  /** Events of keys beyond `max_keys`: passed uncounted, and discarded. */
  failedOpen = 0
  refused = 0
  /** Events that are later than allowed, with windows in event time. */
  late = 0
  /** Events that passed after they had waited for room, and the longest wait. */
  readonly waits = { events: 0, longestMs: 0 }
  /** Whether the last event was counted in the default bucket. */
  abstract readonly byDefault: boolean
  /** Called before the events of a batch. */
  abstract enter(batch: EventBatch): void
  abstract decide(batch: EventBatch, i: number, now: number): Outcome
}

/** Creates the decider of a throttle with any options. */
export function createTrialDecider(options: ThrottleOptions, context: FieldContext): TrialDecider {
  const compiled = deciderOptions(options, context)
  const { live } = longestWaits(options)
  return live > 0 ? new WaitingTrial(compiled, live) : new UsualTrial(compiled, options)
}

/** The decider of the daemon, at the times of the events. */
class UsualTrial extends TrialDecider {
  readonly #decider: Decider
  readonly #key: EventKey
  /** With `pass_one_in`. */
  readonly #samples: OneInN | undefined

  constructor(options: DeciderOptions, { over_limit: over }: ThrottleOptions) {
    super()
    const { keyFields, seed, maxKeys } = options
    this.#decider = createDecider(options, STOPPED_CLOCK)
    this.#key = new EventKey(keyFields, seed)
    if (typeof over === 'object' && 'pass_one_in' in over) this.#samples = new OneInN(over.pass_one_in, maxKeys, seed)
  }

  get byDefault(): boolean {
    return this.#decider.byDefault
  }

  enter(batch: EventBatch): void {
    if (this.#decider.inEventTime) this.#decider.begin(batch, 0)
  }

  decide(batch: EventBatch, i: number, now: number): Outcome {
    const decider = this.#decider
    if (!decider.inEventTime) decider.limiter.advance(now)
    const decision = decider.decideOne(batch, i, now)
    switch (decision) {
      case DISCARD:
        return this.#isSample(batch, i, now) ? PASS : DISCARD
      case FULL:
        this.refused++
        return DISCARD
      case TOO_LATE:
        this.late++
        return DISCARD
      case LATE:
        this.late++
        return PASS
      case FAIL_OPEN:
        this.failedOpen++
        return PASS
      default:
        return decision === EXCLUDED ? EXCLUDED : PASS
    }
  }

  #isSample(batch: EventBatch, i: number, now: number): boolean {
    if (!this.#samples) return false
    this.#key.load(batch, i)
    this.#samples.advance(now)
    return this.#samples.passes(this.#key, now)
  }
}

/** When the last event of each bucket that waited has found room. */
class RoomTimes extends BucketColumns {
  at(bucket: number): number {
    return this.times[bucket]!
  }

  set(bucket: number, time: number): void {
    this.times[bucket] = time
  }
}

/**
 * A throttle whose events over the limit wait for room. The events of a bucket find room in the order in which they
 * came, so an event is decided at once, at the time at which it will have found room. That nothing else is held up
 * meanwhile is an assumption: in a daemon, what waits may stop the reading of its source.
 */
class WaitingTrial extends TrialDecider {
  readonly #waitMs: number
  readonly #decider: Decider
  readonly #key: EventKey
  readonly #others = new RoomTimes()
  /** By the id of the rule, whose buckets are its own. */
  readonly #buckets = new Map<string | undefined, KeyedBuckets<RoomTimes>>()
  readonly #options: DeciderOptions

  constructor(options: DeciderOptions, waitMs: number) {
    super()
    this.#options = options
    this.#waitMs = waitMs
    this.#decider = createDecider(options, STOPPED_CLOCK)
    this.#key = new EventKey(options.keyFields, options.seed)
  }

  get byDefault(): boolean {
    return this.#decider.byDefault
  }

  enter(_batch: EventBatch): void {}

  decide(batch: EventBatch, i: number, now: number): Outcome {
    const decider = this.#decider
    decider.limiter.advance(now)
    const [times, bucket] = this.#roomTimes(batch, i, now)
    const from = Math.min(Math.max(now, times.at(bucket)), now + this.#waitMs)
    switch (decider.decideOne(batch, i, from)) {
      case EXCLUDED:
        return EXCLUDED
      case FAIL_OPEN:
        this.failedOpen++
        return PASS
      case FULL:
        this.refused++
        return DISCARD
      case DISCARD: {
        const at = decider.roomAt(batch, i)
        if (at - now > this.#waitMs || decider.decideOne(batch, i, at) === DISCARD) return DISCARD
        times.set(bucket, at)
        this.#note(at - now)
        return PASS
      }
      default:
        if (from > now) this.#note(from - now)
        return PASS
    }
  }

  #note(waitedMs: number): void {
    this.waits.events++
    this.waits.longestMs = Math.max(this.waits.longestMs, waitedMs)
  }

  #roomTimes(batch: EventBatch, i: number, now: number): [RoomTimes, number] {
    const { maxKeys } = this.#options
    const rule = this.#decider.ruleOf(batch, i)?.id
    let buckets = this.#buckets.get(rule)
    if (!buckets) {
      const options = { idleMs: this.#waitMs, maxKeys, keepsUsed: false }
      buckets = new KeyedBuckets(options, () => new RoomTimes())
      this.#buckets.set(rule, buckets)
    }
    buckets.advance(now)
    const key = this.#key
    key.load(batch, i)
    const id = key.isThere ? buckets.bucket(key, now) : -1
    return id < 0 ? [this.#others, 0] : [buckets.windows, id]
  }
}
