import { deciderOptions } from '../components/processors/throttle/decider-options.js'
import { creditMs, longestWaits, type ThrottleConfig } from '../components/processors/throttle/options.js'
import { OneInN } from '../components/processors/throttle/over-limit.js'
import { BucketKey } from '../components/throttle/buckets/bucket-key.js'
import { EventKey } from '../components/throttle/buckets/event-key.js'
import { KeyedBuckets } from '../components/throttle/buckets/keyed-buckets.js'
import { createDecider } from '../components/throttle/create-decider.js'
import type { Decider } from '../components/throttle/decider.js'
import type { DeciderOptions } from '../components/throttle/decider-options.js'
import { DISCARD, EXCLUDED, FAIL_OPEN, FULL, LATE, PASS, TOO_LATE } from '../components/throttle/decisions.js'
import { BucketColumns } from '../components/throttle/windows.js'
import type { EventBatch } from '../core/event/batch.js'
import type { Behind } from '../core/event/behind.js'
import type { FieldPath } from '../core/event/field-path.js'
import type { FieldReader } from '../core/event/field-reader.js'
import { MOST_EVENTS, MOST_WAITING_BYTES } from '../engine/flow/waiting.js'

export interface FieldContext {
  field(path: FieldPath): FieldReader
}

/** The period in which a simulated source is behind. At `until`, it reads all events at once. */
export interface SimulatedLag extends Behind {
  readonly until: number
}

/** Always 0, because deciders get the time from the events. */
const STOPPED_CLOCK = { now: () => 0, wall: () => 0 }

export type Outcome = typeof PASS | typeof DISCARD | typeof EXCLUDED

/** Decides as the daemon does, on one event after the other, and counts unusual decisions. */
export abstract class TrialDecider {
  /** Events of keys beyond `max_keys`. `failedOpen`: those that passed uncounted. `refused`: those discarded. */
  failedOpen = 0
  refused = 0
  /** Only with windows in event time: the events that came later than allowed. */
  late = 0
  /** `events`: number of events that passed after a wait for room. */
  readonly waits = { events: 0, longestMs: 0 }
  /** Whether the last event was counted in the default bucket. */
  abstract readonly byDefault: boolean
  /** Called before the events of a batch. */
  abstract enter(batch: EventBatch): void
  abstract decide(batch: EventBatch, i: number, now: number): Outcome
}

/**
 * A bucket key that several throttles share. All these throttles decide on one event before the next event, so the key
 * of each event is read once.
 */
export class SharedKey extends BucketKey {
  #batch: EventBatch | undefined
  #event = -1
  #isThere = false

  constructor({ key_field }: ThrottleConfig, context: FieldContext) {
    super(key_field.map(path => context.field(path)))
  }

  override load(batch: EventBatch, i: number): boolean {
    if (batch === this.#batch && i === this.#event) return this.#isThere
    this.#isThere = super.load(batch, i)
    this.#batch = batch
    this.#event = i
    return this.#isThere
  }
}

/**
 * Creates the decider of a throttle with any options. `isBacklog`: all events are backlog and arrive at the time of the
 * first event. `key`: a key to share with other throttles whose key fields are the same. `lag`: the period of the backlog.
 */
export function createTrialDecider(
  options: ThrottleConfig,
  context: FieldContext,
  isBacklog = false,
  key?: SharedKey,
  lag?: SimulatedLag,
): TrialDecider {
  // A throttle with rules does not share `key`, because each rule stores its bucket's place in the key object.
  const maxCreditMs = lag && creditMs(options)
  const compiled = { ...deciderOptions(options, context), key: options.limits ? undefined : key, maxCreditMs }
  const { live, backlog } = longestWaits(options)
  const samples = new Samples(compiled, options)
  if (!isBacklog) return live > 0 ? new WaitingTrial(compiled, samples, live) : new UsualTrial(compiled, samples)
  if (options.on_backlog === 'pass' && !options.time_field) return new PassingTrial()
  return backlog > 0
    ? new WaitingTrial({ ...compiled, maxCreditMs: undefined }, samples, backlog, new WaitingRoom())
    : new UsualTrial(compiled, samples, lag)
}

class PassingTrial extends TrialDecider {
  readonly byDefault = false

  enter(_batch: EventBatch): void {}

  decide(): Outcome {
    return PASS
  }
}

/** Chooses the events over the limit that pass with `pass_one_in`. */
class Samples {
  readonly #key: EventKey
  readonly #oneIn: OneInN | undefined

  constructor({ keyFields, seed, maxKeys }: DeciderOptions, { over_limit: over }: ThrottleConfig) {
    this.#key = new EventKey(keyFields, seed)
    if (typeof over === 'object' && 'pass_one_in' in over) this.#oneIn = new OneInN(over.pass_one_in, maxKeys, seed)
  }

  /** Decides on event `i`, which is over the limit. */
  outcome(batch: EventBatch, i: number, now: number): Outcome {
    if (!this.#oneIn) return DISCARD
    this.#key.load(batch, i)
    this.#oneIn.advance(now)
    return this.#oneIn.passes(this.#key, now) ? PASS : DISCARD
  }
}

/** Decides on each event at the event's own time, as the daemon does. */
class UsualTrial extends TrialDecider {
  readonly #decider: Decider
  readonly #samples: Samples
  #now = Number.NaN

  constructor(options: DeciderOptions, samples: Samples, lag?: SimulatedLag) {
    super()
    this.#decider = createDecider(options, STOPPED_CLOCK)
    this.#samples = samples
    if (lag) this.#decider.credit?.enter('simulated', lag, lag.until)
  }

  get byDefault(): boolean {
    return this.#decider.byDefault
  }

  enter(batch: EventBatch): void {
    if (this.#decider.inEventTime) this.#decider.begin(batch, 0)
  }

  decide(batch: EventBatch, i: number, now: number): Outcome {
    const decider = this.#decider
    if (now !== this.#now && !decider.inEventTime) decider.limiter.advance(now)
    this.#now = now
    const decision = decider.decideOne(batch, i, now)
    switch (decision) {
      case DISCARD:
        return this.#samples.outcome(batch, i, now)
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
}

/** For each bucket: the time at which its last waiting event found room. */
class RoomTimes extends BucketColumns {
  at(bucket: number): number {
    return this.times[bucket]!
  }

  set(bucket: number, time: number): void {
    this.times[bucket] = time
  }
}

/**
 * Backlog that waits for room in its buckets. The source is read without delay until the stage is full. After that, it
 * is read as fast as events leave the stage.
 */
class WaitingRoom {
  /** The time at which each waiting event leaves the stage, and the size of the event. The earliest time is first. */
  readonly #leaving: { readonly at: number; readonly bytes: number }[] = []
  #bytes = 0
  #now = Number.NEGATIVE_INFINITY

  /** The arrival time of an event that could be read at `time`. It is later than `time` if the stage is full. */
  arrival(time: number): number {
    while (this.#leaving.length >= MOST_EVENTS || this.#bytes >= MOST_WAITING_BYTES) {
      const { at, bytes } = this.#leaving.shift()!
      this.#bytes -= bytes
      this.#now = Math.max(this.#now, at)
    }
    return Math.max(time, this.#now)
  }

  add(at: number, bytes: number): void {
    let place = this.#leaving.length
    while (place > 0 && this.#leaving[place - 1]!.at > at) place--
    this.#leaving.splice(place, 0, { at, bytes })
    this.#bytes += bytes
  }
}

/** A waiting event is decided this many milliseconds after its bucket has room. */
const LATE_MS = 1

/**
 * A throttle whose events over the limit wait for room. The events of a bucket find room in the order of their arrival.
 * So each event is decided on arrival, but with the time at which its bucket will have room. This class assumes that
 * waiting events do not block other events. In a daemon, waiting events may pause their source. These pauses are
 * simulated only for backlog.
 */
class WaitingTrial extends TrialDecider {
  readonly #waitMs: number
  /** Only for backlog. */
  readonly #room: WaitingRoom | undefined
  readonly #samples: Samples
  readonly #decider: Decider
  readonly #key: EventKey
  readonly #others = new RoomTimes()
  /** By the id of a rule, because each rule has its own buckets. */
  readonly #buckets = new Map<string | undefined, KeyedBuckets<RoomTimes>>()
  readonly #options: DeciderOptions

  constructor(options: DeciderOptions, samples: Samples, waitMs: number, room?: WaitingRoom) {
    super()
    this.#options = options
    this.#samples = samples
    this.#waitMs = waitMs
    this.#room = room
    this.#decider = createDecider(options, STOPPED_CLOCK)
    this.#key = new EventKey(options.keyFields, options.seed)
  }

  get byDefault(): boolean {
    return this.#decider.byDefault
  }

  enter(_batch: EventBatch): void {}

  decide(batch: EventBatch, i: number, time: number): Outcome {
    const decider = this.#decider
    const now = this.#room?.arrival(time) ?? time
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
        const roomAt = decider.roomAt(batch, i)
        const at = this.#room ? roomAt + LATE_MS : roomAt
        if (roomAt - now > this.#waitMs || decider.decideOne(batch, i, at) === DISCARD) {
          // The event waits if earlier events of its bucket wait. A waiting event is discarded after the maximum wait.
          if (from > now) this.#room?.add(now + this.#waitMs, batch.size(i))
          return this.#samples.outcome(batch, i, now)
        }
        times.set(bucket, at)
        this.#room?.add(at, batch.size(i))
        this.#note(at - time)
        return PASS
      }
      default:
        if (from > now) this.#room?.add(from, batch.size(i))
        if (from > time) this.#note(from - time)
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
