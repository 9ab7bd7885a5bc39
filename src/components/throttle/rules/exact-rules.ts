import type { PlacedKey } from '../buckets/bucket-part.js'
import { type Key, KeyTable, sameKeys } from '../buckets/key-table.js'
import type { KeyedBuckets, PrepareBucket } from '../buckets/keyed-buckets.js'
import type { FULL, WindowDecision } from '../decisions.js'
import type { Level, Limit } from '../limit.js'
import type { StateReader, StateWriter } from '../persist/state-bytes.js'
import type { Windows } from '../windows.js'
import type { BucketLimiter } from './rules.js'

/** The limiter (limiter.ts) whose columns the rules share. */
interface SharedLimiter extends BucketLimiter {
  readonly timing: { windows(limits: readonly Limit[]): Windows }
  readonly saved: { readonly buckets: KeyedBuckets<Windows> }
  take(key: PlacedKey | undefined, time: number, cost: number, size: number): WindowDecision | typeof FULL
  dropUnused(silentMs: number): void
  restartAligned(): void
  release(): void
}

/** A text that is the same for rules whose limits differ only in the number `limit`. */
export function ruleShape(limits: readonly Limit[]): string {
  // gcra counts in fractions of its limit, so rules with gcra can share columns only if their limits are equal.
  return JSON.stringify(limits.map(limit => (limit.mode === 'gcra' ? limit : { ...limit, limit: 0 })))
}

/**
 * Rules that apply to one key each, and whose limits have the same shape. Their buckets share the columns of one
 * limiter. With a separate limiter for each of a thousand rules, the CPU cache would hold few of the buckets that
 * events need.
 */
export class ExactRules {
  readonly limiter: SharedLimiter
  #keys = new KeyTable()
  #rules: ExactRule[] = []

  constructor(create: (prepare: PrepareBucket<Windows>) => SharedLimiter) {
    this.limiter = create((windows, id, key) => {
      const rule = this.#rules[this.#keys.find(key)]
      if (rule) windows.setLimits(id, rule.limits)
    })
  }

  /** Creates a rule for this key. Returns undefined if another rule already has the key. */
  add(key: Key, limits: readonly Limit[]): ExactRule | undefined {
    if (this.#keys.find(key) >= 0) return undefined
    const rule = new ExactRule(this.limiter, key, limits)
    this.#rules[this.#keys.add(key)] = rule
    return rule
  }

  /** Drops the buckets of released rules. Returns whether other rules remain. */
  sweep(): boolean {
    const kept = this.#rules.filter(({ isReleased }) => !isReleased)
    if (kept.length < this.#rules.length) {
      this.limiter.saved.buckets.remove(this.#rules.filter(({ isReleased }) => isReleased).map(({ key }) => key))
      this.#keys = new KeyTable(kept.length)
      for (const { key } of kept) this.#keys.add(key)
      this.#rules = kept
    }
    if (kept.length === 0) this.limiter.release()
    return kept.length > 0
  }
}

/** The limiter of one rule, for events with the key of this rule. */
export class ExactRule implements BucketLimiter {
  readonly seed: number
  readonly key: Key
  readonly limits: readonly Limit[]
  isReleased = false
  readonly shared: SharedLimiter
  #defaults: Windows | undefined

  constructor(shared: SharedLimiter, key: Key, limits: readonly Limit[]) {
    this.seed = shared.seed
    this.key = key
    this.limits = limits
    this.shared = shared
  }

  release(): void {
    this.isReleased = true
    this.#defaults?.release()
  }

  get saved(): { buckets: ExactRule; ofRules: ReadonlyMap<string, never> } {
    return { buckets: this, ofRules: new Map<string, never>() }
  }

  /** The default bucket, which is used only if there is no room for the bucket of the key. */
  get defaults(): Windows {
    this.#defaults ??= this.shared.timing.windows(this.limits)
    return this.#defaults
  }

  *write(to: StateWriter, all: boolean, now: () => number, most: number): Generator<void> {
    this.shared.saved.buckets.writeOne(this.key, to, all, now())
    if (to.length >= most) yield
  }

  read(length: number, from: StateReader, seed: number): boolean {
    return this.shared.saved.buckets.read(length, from, seed)
  }

  take(key: PlacedKey | undefined, time: number, cost: number, size: number): WindowDecision | typeof FULL {
    return key ? this.shared.take(key, time, cost, size) : this.defaults.take(0, time, cost, size)
  }

  /** The level of the bucket with this key. If the rule does not hold for the key, the bucket is empty. */
  level(key: PlacedKey | undefined, time: number, cost: number, size: number): Level | undefined {
    if (key && sameKeys(key, this.key)) return this.shared.level(key, time, cost, size)
    const windows = key ? this.shared.timing.windows(this.limits) : this.defaults
    return windows.level(0, time, cost, size)
  }

  roomAt(key: PlacedKey | undefined, now: number, cost: number, size: number): number | undefined {
    return key ? this.shared.roomAt(key, now, cost, size) : this.defaults.roomAt(0, now, cost, size)
  }

  restartAligned(): void {
    this.#defaults?.restartAligned()
  }
}
