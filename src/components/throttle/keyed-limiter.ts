import { keyBytes } from './bucket-key.js'
import type { BucketPart, PlacedKey } from './bucket-part.js'
import { BucketRoom } from './bucket-room.js'
import { type ExactRule, ExactRules, shapeOf } from './exact-rules.js'
import { keyOf } from './key-table.js'
import { KeyedBuckets, type PrepareBucket } from './keyed-buckets.js'
import type { Level } from './limit.js'
import { DISCARD, FULL, type LimiterOptions, PASS, type Taken } from './limiter.js'
import { keepOnly, type Rule } from './rules.js'
import { createWindows } from './several-windows.js'
import { WallTime } from './wall-time.js'
import type { Windows } from './windows.js'

/** Windows by key in clock time. A bucket is idle when none of its windows is open. */
export class KeyedLimiter {
  /** For windows that follow the wall clock. */
  readonly wall: WallTime
  /** Of the hashes of keys. */
  readonly seed: number
  readonly #default: Windows
  readonly #buckets: KeyedBuckets<Windows>
  readonly #options: LimiterOptions
  readonly #room: BucketRoom
  readonly #ofRules = new Map<string, KeyedLimiter | ExactRule>()
  /** By the shape of their limits. */
  readonly #exact = new Map<string, ExactRules>()

  /** `parent`: for the limiter of rules. `prepare` is called with each new bucket. */
  constructor(options: LimiterOptions, parent?: KeyedLimiter, prepare?: PrepareBucket<Windows>) {
    const { limits, maxKeys, seed, persists } = options
    const create = () => createWindows(limits, this.wall)
    this.#options = options
    this.seed = seed
    this.wall = parent?.wall ?? new WallTime()
    this.#room = parent ? parent.#room : new BucketRoom(maxKeys)
    this.#default = create()
    this.#buckets = new KeyedBuckets(
      { idleMs: this.#default.spanMs, maxKeys, keepsUsed: false, notesChanges: persists },
      create,
      this.#room,
      prepare,
    )
  }

  /** The limiter of a rule, with buckets of its own. */
  ofRule(rule: Rule): KeyedLimiter | ExactRule {
    const { id, limits } = rule
    const known = this.#ofRules.get(id)
    if (known) return known
    const limiter = this.#exactRule(rule) ?? new KeyedLimiter({ ...this.#options, limits }, this)
    this.#ofRules.set(id, limiter)
    return limiter
  }

  #exactRule({ key, when, limits }: Rule): ExactRule | undefined {
    if (key?.text === undefined || when !== undefined) return undefined
    const shape = shapeOf(limits)
    let exact = this.#exact.get(shape)
    if (!exact) {
      exact = new ExactRules(prepare => new KeyedLimiter({ ...this.#options, limits }, this, prepare))
      this.#exact.set(shape, exact)
    }
    return exact.add(keyOf(keyBytes(key.text), this.seed), limits)
  }

  /** Drops the limiters of all other rules. */
  keepRules(rules: readonly Rule[]): void {
    keepOnly(this.#ofRules, rules)
    for (const [shape, exact] of this.#exact) if (!exact.sweep()) this.#exact.delete(shape)
  }

  release(): void {
    this.#buckets.release()
  }

  get groups() {
    return { defaults: this.#default, buckets: this.#buckets, ofRules: this.#ofRules }
  }

  /** Number of buckets in memory, without default ones; with those of rules. */
  get keys(): number {
    return this.#room.size
  }

  /** Number of buckets that were dropped; with those of rules. */
  get dropped(): number {
    return this.#room.dropped
  }

  /** Drops idle buckets. Call before the takes for one point in time. */
  advance(now: number): void {
    this.#room.advance(now)
  }

  /** What has all buckets with a key, if they are not divided. Undefined while there are none. */
  get undivided(): BucketPart<Windows> | undefined {
    return this.#buckets.only
  }

  /** Takes an event of the default bucket. */
  takeDefault(now: number): typeof PASS | typeof DISCARD {
    return this.#default.take(0, now) ? PASS : DISCARD
  }

  /** Takes so many events of the default bucket; returns how many pass: the first ones. */
  takeDefaults(events: number, now: number): number {
    return this.#default.takeMany(0, events, now)
  }

  /** Takes an event of the bucket with this key. */
  take(key: PlacedKey, now: number): Taken {
    const id = this.#buckets.bucket(key, now)
    if (id < 0) return FULL
    return this.#buckets.windows.take(id, now) ? PASS : DISCARD
  }

  /** Like `takeDefault`, for an event of this cost and size. */
  takeDefaultCost(now: number, cost: number, size: number): typeof PASS | typeof DISCARD {
    return this.#default.takeCost(0, now, cost, size) ? PASS : DISCARD
  }

  /** Like `take`, for an event of this cost and size. */
  takeCost(key: PlacedKey, now: number, cost: number, size: number): Taken {
    const id = this.#buckets.bucket(key, now)
    if (id < 0) return FULL
    return this.#buckets.windows.takeCost(id, now, cost, size) ? PASS : DISCARD
  }

  /** The level of the bucket with this key; undefined if there is no room for it. */
  level(key: PlacedKey, now: number, cost: number, size: number): Level | undefined {
    const id = this.#buckets.peek(key, now)
    return id < 0 ? undefined : this.#buckets.windows.level(id, now, cost, size)
  }

  levelOfDefault(now: number, cost: number, size: number): Level {
    return this.#default.level(0, now, cost, size)
  }

  /** When an event of the bucket with this key fits if nothing else passes; undefined if there is no room for it. */
  roomAt(key: PlacedKey, now: number, cost: number, size: number): number | undefined {
    const id = this.#buckets.bucket(key, now)
    return id < 0 ? undefined : this.#buckets.windows.roomAt(id, now, cost, size)
  }

  roomAtOfDefault(now: number, cost: number, size: number): number {
    return this.#default.roomAt(0, now, cost, size)
  }

  /** Forgets windows that were aligned to a clock that has been set back. */
  restartAligned(): void {
    this.#default.restartAligned()
    for (const windows of this.#buckets.all) windows.restartAligned()
    for (const limiter of this.#ofRules.values()) limiter.restartAligned()
    for (const exact of this.#exact.values()) exact.restartAligned()
  }
}
