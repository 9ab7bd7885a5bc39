import type { EventBatch } from '../../core/event/batch.js'
import { Decider, type DeciderOptions } from '../../throttle/decider.js'
import { EXCLUDED, FAIL_OPEN } from '../../throttle/decisions.js'
import { EventKey } from '../../throttle/event-key.js'
import { KeyedBuckets } from '../../throttle/keyed-buckets.js'
import { DISCARD, FULL } from '../../throttle/limiter.js'
import { EXEMPT } from '../../throttle/ranked-decider.js'
import { BucketColumns } from '../../throttle/windows.js'
import { CountingTrial } from './trial-decider.js'

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
export class WaitingTrial extends CountingTrial {
  /** Events that passed after they had waited, and the longest wait. */
  readonly waits = { events: 0, longestMs: 0 }
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
    this.#decider = new Decider(options)
    this.#key = new EventKey(options.keyFields, options.seed)
  }

  get byDefault(): boolean {
    return this.#decider.byDefault
  }

  lost(batch: EventBatch, i: number, now: number): number {
    const decider = this.#decider
    decider.limiter.advance(now)
    const [times, bucket] = this.#roomTimes(batch, i, now)
    const from = Math.min(Math.max(now, times.at(bucket)), now + this.#waitMs)
    switch (decider.decideOne(batch, i, from)) {
      case EXCLUDED:
        return EXEMPT
      case FAIL_OPEN:
        this.failedOpen++
        return 0
      case FULL:
        this.refused++
        return 1
      case DISCARD: {
        const at = this.#roomAt(batch, i, from)
        if (at - now > this.#waitMs || decider.decideOne(batch, i, at) === DISCARD) return 1
        times.set(bucket, at)
        this.#note(at - now)
        return 0
      }
      default:
        if (from > now) this.#note(from - now)
        return 0
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

  /** When the event that was just discarded fits, if nothing else passes before. */
  #roomAt(batch: EventBatch, i: number, now: number): number {
    const decider = this.#decider
    const cost = decider.costOf(batch, i)
    const size = batch.size(i)
    const rule = decider.ruleOf(batch, i)
    const limiter = rule ? decider.limiter.ofRule(rule) : decider.limiter
    const key = this.#key
    if (decider.byDefault) return limiter.roomAtOfDefault(now, cost, size)
    key.load(batch, i)
    return limiter.roomAt(key, now, cost, size) ?? limiter.roomAtOfDefault(now, cost, size)
  }
}
