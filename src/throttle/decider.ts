import type { EventBatch } from '../core/event/batch.js'
import type { FieldReader } from '../core/event/field-reader.js'
import { BucketKey } from './bucket-key.js'
import type { LATE } from './event-windows.js'
import { KeyedBuckets } from './keyed-buckets.js'
import { createWindows, type WindowMode, type Windows } from './windows.js'

/** The throttle's decisions as a function of keys and times, without streams, clocks or I/O. */

export type Taken = typeof PASS | typeof DISCARD | typeof FULL
/** Within the limit, and counted. */
export const PASS = 0
/** Beyond the limit. */
export const DISCARD = 1
/** A new key while `maxKeys` others are in use; not counted. */
export const FULL = 2

export interface LimiterOptions {
  readonly limit: number
  readonly windowMs: number
  readonly mode: WindowMode
  readonly maxKeys: number
  /** Any integer; random if keys come from outside. */
  readonly seed: number
}

/** Windows by key in clock time. A bucket is idle when none of its windows is open. */
export class KeyedLimiter {
  readonly #default: Windows
  readonly #buckets: KeyedBuckets<Windows>

  constructor({ mode, limit, windowMs, maxKeys, seed }: LimiterOptions) {
    const create = () => createWindows(mode, limit, windowMs)
    this.#default = create()
    this.#buckets = new KeyedBuckets({ idleMs: windowMs, maxKeys, seed, unusedIsIdle: true }, create)
  }

  /** Number of buckets in memory, without the default one. */
  get keys(): number {
    return this.#buckets.size
  }

  /** Drops idle buckets. Call before the takes for one point in time. */
  advance(now: number): void {
    this.#buckets.advance(now)
  }

  /** Takes an event of the default bucket. */
  takeDefault(now: number): typeof PASS | typeof DISCARD {
    return this.#default.take(0, now) ? PASS : DISCARD
  }

  /** Takes so many events of the default bucket; returns how many pass: the first ones. */
  takeDefaults(events: number, now: number): number {
    return this.#default.takeMany(0, events, now)
  }

  /** Takes an event of the bucket with key bytes[start, end). */
  take(bytes: DataView, start: number, end: number, now: number): Taken {
    const id = this.#buckets.bucket(bytes, start, end, now)
    if (id < 0) return FULL
    return this.#buckets.windows.take(id, now) ? PASS : DISCARD
  }
}

/** The result for an event: PASS, DISCARD or FULL, LATE (event-windows.ts), or one of these. */
export const EXCLUDED = 3
/** A new key beyond `maxKeys` that passes nevertheless. */
export const FAIL_OPEN = 4
/** A late event that is discarded; a LATE one passes. */
export const TOO_LATE = 6
export type Decision = Taken | typeof EXCLUDED | typeof FAIL_OPEN | typeof LATE | typeof TOO_LATE

export interface DeciderOptions extends LimiterOptions {
  readonly onMaxKeys: 'default_bucket' | 'pass' | 'discard'
  readonly exclude?: ((batch: EventBatch, i: number) => boolean) | undefined
  /** The fields of the key; none: all events belong to the default bucket. */
  readonly keyFields: readonly FieldReader[]
  readonly eventTime?: EventTimeOptions | undefined
}

export interface EventTimeOptions {
  readonly field: FieldReader
  readonly latenessMs: number
  readonly onLate: 'pass' | 'discard'
}

/** Limits by key, in event time or clock time. */
export interface Limiter<T> {
  take(bytes: DataView, start: number, end: number, time: number): T | typeof FULL
  takeDefault(time: number): T
}

/** Decides on each event: first exclude, then the key, then its bucket. */
export abstract class KeyedDecider<T> {
  /** Whether the last event was counted in the default bucket. */
  byDefault = false
  abstract readonly limiter: Limiter<T>
  /** Undefined: all events belong to the default bucket. */
  readonly #key: BucketKey | undefined
  readonly #exclude: DeciderOptions['exclude']
  readonly #onMaxKeys: DeciderOptions['onMaxKeys']

  constructor({ exclude, keyFields, onMaxKeys }: DeciderOptions) {
    this.#exclude = exclude
    this.#key = keyFields.length > 0 ? new BucketKey(keyFields) : undefined
    this.#onMaxKeys = onMaxKeys
  }

  /** Whether the decisions do not depend on the events. */
  protected get isBlind(): boolean {
    return this.#exclude === undefined && this.#key === undefined
  }

  protected isExcluded(batch: EventBatch, i: number): boolean {
    this.byDefault = false
    return this.#exclude?.(batch, i) ?? false
  }

  /** Decides on an event that is not excluded. */
  protected take(batch: EventBatch, i: number, time: number): T | typeof FULL | typeof FAIL_OPEN {
    const key = this.#key
    if (key === undefined || !key.load(batch, i)) return this.#takeDefault(time)
    const taken = this.limiter.take(key.bytes, key.start, key.end, time)
    if (taken !== FULL || this.#onMaxKeys === 'discard') return taken
    return this.#onMaxKeys === 'pass' ? FAIL_OPEN : this.#takeDefault(time)
  }

  #takeDefault(time: number): T {
    this.byDefault = true
    return this.limiter.takeDefault(time)
  }
}

/** Decides at times given by the caller, without a clock. */
export class Decider extends KeyedDecider<typeof PASS | typeof DISCARD> {
  /** The decisions about the events of the last batch. */
  decisions = new Uint8Array(1024)
  /** Number of events per decision. */
  readonly counts = new Uint32Array(5)
  override readonly limiter: KeyedLimiter

  /** `limiter`: that of a predecessor with the same options. */
  constructor(options: DeciderOptions, limiter = new KeyedLimiter(options)) {
    super(options)
    this.limiter = limiter
  }

  /** Decides on all events of a batch at one point in time. */
  decide(batch: EventBatch, now: number): void {
    const length = batch.length
    if (this.decisions.length < length) this.decisions = new Uint8Array(length * 2)
    this.counts.fill(0)
    this.limiter.advance(now)
    const { decisions, counts } = this
    if (this.isBlind) {
      const passed = this.limiter.takeDefaults(length, now)
      decisions.fill(PASS, 0, passed).fill(DISCARD, passed, length)
      counts[PASS] = passed
      counts[DISCARD] = length - passed
      return
    }
    for (let i = 0; i < length; i++) {
      const decision = this.decideOne(batch, i, now)
      decisions[i] = decision
      counts[decision]!++
    }
  }

  /** Decides on one event; the limiter must be advanced to `now`. */
  decideOne(batch: EventBatch, i: number, now: number): Taken | typeof EXCLUDED | typeof FAIL_OPEN {
    return this.isExcluded(batch, i) ? EXCLUDED : this.take(batch, i, now)
  }
}
