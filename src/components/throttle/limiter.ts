import { keyBytes } from './buckets/bucket-key.js'
import type { BucketPart, PlacedKey } from './buckets/bucket-part.js'
import { keyOf } from './buckets/key-table.js'
import { BucketBound, KeyedBuckets, type PrepareBucket } from './buckets/keyed-buckets.js'
import { FULL, type WindowDecision } from './decisions.js'
import type { Level, Limit } from './limit.js'
import type { StateReader, StateWriter } from './persist/state-bytes.js'
import { type ExactRule, ExactRules, shapeOf } from './rules/exact-rules.js'
import { keepOnly, type Rule, type RuledLimiter } from './rules/rules.js'
import { createWindows } from './windows/several.js'
import { WallTime } from './windows/wall-time.js'
import type { Windows } from './windows.js'

/** The progress of event times. */
export interface SavedProgress {
  readonly oldest: number
  write(to: StateWriter): void
  read(from: StateReader): void
}

export interface LimiterOptions {
  /** At least one. */
  readonly limits: readonly Limit[]
  readonly maxKeys: number
  /** Any integer; random if keys come from outside. */
  readonly seed: number
  /** Whether buckets are saved when they have changed. */
  readonly persists?: boolean | undefined
}

/** The time in which decisions are made. It creates the windows of limits, and defines when a bucket is idle. */
export interface Timing {
  windows(limits: readonly Limit[]): Windows
  /** How long a bucket is in use after the end of its windows. */
  readonly graceMs: number
  /** Whether a bucket that was used since the last search for idle ones is in use, even if its windows have ended. */
  readonly keepsUsed: boolean
  /** The time at which buckets are checked for being idle while an event at `time` is decided. */
  present(time: number): number
  /** In event time: the progress to save. */
  readonly progress?: SavedProgress
}

/** The clock: a bucket is idle when all of its windows are closed. */
export class ClockTiming implements Timing {
  /** For windows that follow the wall clock. */
  readonly wall = new WallTime()
  readonly graceMs = 0
  readonly keepsUsed = false

  windows(limits: readonly Limit[]): Windows {
    return createWindows(limits, this.wall)
  }

  present(time: number): number {
    return time
  }
}

/**
 * Buckets of limits, by key. Rules have buckets of their own. Without a key, an event belongs to the default bucket.
 * Costs and sizes: see `Windows`.
 */
export class Limiter<T extends Timing = Timing> implements RuledLimiter {
  readonly timing: T
  /** Seed of the key hashes. */
  readonly seed: number
  readonly #buckets: KeyedBuckets<Windows>
  readonly #options: LimiterOptions
  readonly #room: BucketBound
  readonly #ofRules = new Map<string, Limiter<T> | ExactRule>()
  /** By the shape of the rules' limits. */
  readonly #exact = new Map<string, ExactRules>()

  /** `parent`: for the limiter of rules. `prepare` is called with each new bucket. */
  constructor(options: LimiterOptions, timing: T, parent?: Limiter<T>, prepare?: PrepareBucket<Windows>) {
    const { limits, maxKeys, seed, persists } = options
    this.#options = options
    this.seed = seed
    this.timing = timing
    this.#room = parent ? parent.#room : new BucketBound(maxKeys)
    const create = () => timing.windows(limits)
    const { graceMs, keepsUsed } = timing
    const lifetime = { idleMs: create().spanMs + graceMs, maxKeys, keepsUsed, notesChanges: persists }
    this.#buckets = new KeyedBuckets(lifetime, create, this.#room, prepare)
  }

  ofRule(rule: Rule): Limiter<T> | ExactRule {
    const { id, limits } = rule
    const known = this.#ofRules.get(id)
    if (known) return known
    const limiter = this.#exactRule(rule) ?? new Limiter<T>({ ...this.#options, limits }, this.timing, this)
    this.#ofRules.set(id, limiter)
    return limiter
  }

  #exactRule({ key, when, limits }: Rule): ExactRule | undefined {
    if (key?.text === undefined || when !== undefined) return undefined
    const shape = shapeOf(limits)
    let exact = this.#exact.get(shape)
    if (!exact) {
      exact = new ExactRules(prepare => new Limiter({ ...this.#options, limits }, this.timing, this, prepare))
      this.#exact.set(shape, exact)
    }
    return exact.add(keyOf(keyBytes(key.text), this.seed), limits)
  }

  /** Drops the limiters of all other rules. */
  keepRules(rules: readonly Rule[]): void {
    keepOnly(this.#ofRules, rules)
    for (const [shape, exact] of this.#exact) if (!exact.sweep()) this.#exact.delete(shape)
  }

  /** Drops all buckets that are idle after `ms` milliseconds without an event, including those of rules. */
  dropUnused(ms: number): void {
    if (ms >= this.#buckets.idleMs) this.#buckets.clear()
    for (const limiter of this.#ofRules.values()) if (limiter instanceof Limiter) limiter.dropUnused(ms)
    for (const exact of this.#exact.values()) exact.limiter.dropUnused(ms)
  }

  release(): void {
    this.#buckets.release()
  }

  get saved() {
    return { buckets: this.#buckets, ofRules: this.#ofRules }
  }

  /** Number of buckets in memory, including rules and excluding default buckets. */
  get keys(): number {
    return this.#room.size
  }

  /** Number of buckets that were dropped, including rules. */
  get dropped(): number {
    return this.#room.dropped
  }

  /** Drops idle buckets. Call before the decisions for one point in time. */
  advance(time: number): void {
    this.#room.advance(this.timing.present(time))
  }

  /** The part with all keyed buckets, if there is only one. Undefined without buckets. */
  get undivided(): BucketPart<Windows> | undefined {
    return this.#buckets.only
  }

  /** The windows of the default bucket (id 0). */
  get defaults(): Windows {
    return this.#buckets.defaults
  }

  /** Decides on an event of the bucket with this key, and counts it if it passes. */
  take(key: PlacedKey | undefined, time: number, cost: number, size: number): WindowDecision | typeof FULL {
    const id = this.#buckets.bucket(key, this.timing.present(time))
    return id < 0 ? FULL : this.#buckets.windows.take(id, time, cost, size)
  }

  /** The level of the bucket with this key; undefined if there is no room for it. */
  level(key: PlacedKey | undefined, time: number, cost: number, size: number): Level | undefined {
    const id = this.#buckets.peek(key, this.timing.present(time))
    return id < 0 ? undefined : this.#buckets.windows.level(id, time, cost, size)
  }

  /** When an event of the bucket with this key fits if nothing else passes; undefined if there is no room for it. */
  roomAt(key: PlacedKey | undefined, time: number, cost: number, size: number): number | undefined {
    const id = this.#buckets.bucket(key, this.timing.present(time))
    return id < 0 ? undefined : this.#buckets.windows.roomAt(id, time, cost, size)
  }

  /** Forgets windows that were aligned to a clock that has been set back. */
  restartAligned(): void {
    for (const windows of this.#buckets.all) windows.restartAligned()
    for (const limiter of this.#ofRules.values()) limiter.restartAligned()
    for (const exact of this.#exact.values()) exact.limiter.restartAligned()
  }
}
