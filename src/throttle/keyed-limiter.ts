import type { PlacedKey } from './bucket-part.js'
import { BucketRoom } from './bucket-room.js'
import { KeyedBuckets } from './keyed-buckets.js'
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
  readonly #ofRules = new Map<string, KeyedLimiter>()

  /**
   * `parent`: for the limiter of a rule. `create` makes the windows of many buckets; by default those of the limits.
   */
  constructor(options: LimiterOptions, parent?: KeyedLimiter, create = () => createWindows(options.limits, this.wall)) {
    const { maxKeys, seed, persists } = options
    this.#options = options
    this.seed = seed
    this.wall = parent?.wall ?? new WallTime()
    this.#room = parent ? parent.#room : new BucketRoom(maxKeys)
    this.#default = create()
    this.#buckets = new KeyedBuckets(
      { idleMs: this.#default.spanMs, maxKeys, keepsUsed: false, notesChanges: persists },
      create,
      this.#room,
    )
  }

  /** The limiter of a rule, with buckets of its own. */
  ofRule({ id, limits }: Rule): KeyedLimiter {
    const limiter = this.#ofRules.get(id) ?? new KeyedLimiter({ ...this.#options, limits }, this)
    this.#ofRules.set(id, limiter)
    return limiter
  }

  /** Drops the limiters of all other rules. */
  keepRules(rules: readonly Rule[]): void {
    keepOnly(this.#ofRules, rules)
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
    return takeCost(this.#default, 0, now, cost, size)
  }

  /** Like `take`, for an event of this cost and size. */
  takeCost(key: PlacedKey, now: number, cost: number, size: number): Taken {
    const id = this.#buckets.bucket(key, now)
    return id < 0 ? FULL : takeCost(this.#buckets.windows, id, now, cost, size)
  }

  /** The level of the bucket with this key; undefined if there is no room for it. */
  level(key: PlacedKey, now: number, cost: number, size: number): Level | undefined {
    const id = this.#buckets.peek(key, now)
    return id < 0 ? undefined : this.#buckets.windows.level(id, now, cost, size)
  }

  levelOfDefault(now: number, cost: number, size: number): Level {
    return this.#default.level(0, now, cost, size)
  }

  /** When an event of the bucket with this key, or else of the default one, fits if nothing else passes. */
  roomAt(key: PlacedKey, now: number, cost: number, size: number): number {
    const id = this.#buckets.bucket(key, now)
    return id < 0 ? this.roomAtOfDefault(now, cost, size) : this.#buckets.windows.roomAt(id, now, cost, size)
  }

  roomAtOfDefault(now: number, cost: number, size: number): number {
    return this.#default.roomAt(0, now, cost, size)
  }

  /** Forgets windows that were aligned to a clock that has been set back. */
  restartAligned(): void {
    this.#default.restartAligned()
    for (const windows of this.#buckets.all) windows.restartAligned()
    for (const limiter of this.#ofRules.values()) limiter.restartAligned()
  }
}

function takeCost(windows: Windows, id: number, now: number, cost: number, size: number) {
  if (!windows.fits(id, now, cost, size)) return DISCARD
  windows.charge(id, now, cost, size)
  return PASS
}
