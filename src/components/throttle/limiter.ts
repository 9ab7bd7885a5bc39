import { keyBytes } from './buckets/bucket-key.js'
import type { BucketPart, PlacedKey } from './buckets/bucket-part.js'
import { hashedKey } from './buckets/key-table.js'
import { BucketBound, KeyedBuckets, type PrepareBucket } from './buckets/keyed-buckets.js'
import { FULL, type WindowDecision } from './decisions.js'
import type { Level, Limit } from './limit.js'
import type { StateReader, StateWriter } from './persist/state-bytes.js'
import { type ExactRule, ExactRules, ruleShape } from './rules/exact-rules.js'
import type { Rule } from './rules/rule.js'
import { keepOnly, type RuledLimiter } from './rules/rules.js'
import { Credit } from './windows/credited.js'
import { createWindows } from './windows/several.js'
import { WallTime } from './windows/wall-time.js'
import type { Windows } from './windows.js'

/** The progress of event times, which is saved with the buckets. */
export interface SavedProgress {
  readonly oldest: number
  write(to: StateWriter): void
  read(from: StateReader): void
}

export interface LimiterOptions {
  /** At least one. */
  readonly limits: readonly Limit[]
  readonly maxKeys: number
  /** Seed of the key hashes; must be random if senders choose the keys. */
  readonly seed: number
  /** Whether to record which buckets have changed. Needed if the buckets are saved. */
  readonly persists?: boolean | undefined
}

/**
 * The kind of time by which a throttle decides: clock time or event time. Creates windows, and defines idle buckets.
 */
export interface Timing {
  windows(limits: readonly Limit[]): Windows
  /** How long a bucket stays in use after its windows have ended. */
  readonly graceMs: number
  /** Whether to keep a bucket that was used since the last search for idle buckets, even if its windows have ended. */
  readonly keepsUsed: boolean
  /** Returns the time that decides whether a bucket counts as idle at `time`. */
  present(time: number): number
  /** Only in event time. */
  readonly progress?: SavedProgress
}

/** Clock time. A bucket is idle when all of its windows have ended. */
export class ClockTiming implements Timing {
  /** For windows that follow the wall clock. */
  readonly wall = new WallTime()
  /** Undefined if backlog counts like live events. */
  readonly credit: Credit | undefined
  readonly graceMs = 0
  readonly keepsUsed = false

  /** `maxCreditMs`: see DeciderOptions. */
  constructor(maxCreditMs?: number) {
    if (maxCreditMs !== undefined) this.credit = new Credit(maxCreditMs)
  }

  windows(limits: readonly Limit[]): Windows {
    return createWindows(limits, this.wall, this.credit)
  }

  present(time: number): number {
    return time
  }
}

/**
 * Applies limits to buckets, which it finds by key. An event without a key belongs to the default bucket. Rules have
 * their own buckets. Costs and sizes: see `Windows`.
 */
export class Limiter<T extends Timing = Timing> implements RuledLimiter {
  readonly timing: T
  readonly seed: number
  readonly #buckets: KeyedBuckets<Windows>
  readonly #options: LimiterOptions
  readonly #room: BucketBound
  readonly #ofRules = new Map<string, Limiter<T> | ExactRule>()
  /** Rules that apply to one key each, grouped by the shape of their limits (`shapeOf`). */
  readonly #exact = new Map<string, ExactRules>()

  /** `parent`: the throttle's limiter, if the new limiter is for rules. `prepare` is called for each new bucket. */
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
    const shape = ruleShape(limits)
    let exact = this.#exact.get(shape)
    if (!exact) {
      exact = new ExactRules(prepare => new Limiter({ ...this.#options, limits }, this.timing, this, prepare))
      this.#exact.set(shape, exact)
    }
    return exact.add(hashedKey(keyBytes(key.text), this.seed), limits)
  }

  keepRules(rules: readonly Rule[]): void {
    keepOnly(this.#ofRules, rules)
    for (const [shape, exact] of this.#exact) if (!exact.sweep()) this.#exact.delete(shape)
  }

  /** Drops buckets, also those of rules, that are idle after `ms` milliseconds without any event. */
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

  /** Number of keyed buckets in memory, including those of rules. */
  get keys(): number {
    return this.#room.size
  }

  get dropped(): number {
    return this.#room.dropped
  }

  /** Drops idle buckets. Call once before all decisions that are made at `time`. */
  advance(time: number): void {
    this.#room.advance(this.timing.present(time))
  }

  get undivided(): BucketPart<Windows> | undefined {
    return this.#buckets.only
  }

  /** The windows of the default bucket, whose id is 0. */
  get defaults(): Windows {
    return this.#buckets.defaults
  }

  take(key: PlacedKey | undefined, time: number, cost: number, size: number): WindowDecision | typeof FULL {
    const id = this.#buckets.bucket(key, this.timing.present(time))
    return id < 0 ? FULL : this.#buckets.windows.take(id, time, cost, size)
  }

  /** How full the bucket with this key is; undefined: there is no room for the bucket. */
  level(key: PlacedKey | undefined, time: number, cost: number, size: number): Level | undefined {
    const id = this.#buckets.peek(key, this.timing.present(time))
    return id < 0 ? undefined : this.#buckets.windows.level(id, time, cost, size)
  }

  /** The earliest time at which the event fits if no other event passes; undefined if its bucket gets no room. */
  roomAt(key: PlacedKey | undefined, time: number, cost: number, size: number): number | undefined {
    const id = this.#buckets.bucket(key, this.timing.present(time))
    return id < 0 ? undefined : this.#buckets.windows.roomAt(id, time, cost, size)
  }

  restartAligned(): void {
    for (const windows of this.#buckets.all) windows.restartAligned()
    for (const limiter of this.#ofRules.values()) limiter.restartAligned()
    for (const exact of this.#exact.values()) exact.limiter.restartAligned()
  }
}
