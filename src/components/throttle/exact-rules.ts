import type { PlacedKey } from './bucket-part.js'
import { type Key, KeyTable, sameKeys } from './key-table.js'
import type { PrepareBucket } from './keyed-buckets.js'
import type { KeyedLimiter } from './keyed-limiter.js'
import type { Level, Limit } from './limit.js'
import { DISCARD, PASS, type Taken } from './limiter.js'
import { createWindows } from './several-windows.js'
import type { StateReader, StateWriter } from './state-bytes.js'
import type { Windows } from './windows.js'

/** What rules whose limits differ only in numbers have in common. */
export function shapeOf(limits: readonly Limit[]): string {
  // The columns of gcra count in parts of its own limit.
  return JSON.stringify(limits.map(limit => (limit.mode === 'gcra' ? limit : { ...limit, limit: 0 })))
}

/**
 * Rules that hold for one key each, and have limits of one shape. Their buckets are side by side in the columns of one
 * limiter: with a limiter for each of a thousand rules, hardly any event would find its bucket in the processor's cache.
 */
export class ExactRules {
  readonly #limiter: KeyedLimiter
  #keys = new KeyTable()
  /** By the id of their key. */
  #rules: ExactRule[] = []

  /** `create` makes the limiter. */
  constructor(create: (prepare: PrepareBucket<Windows>) => KeyedLimiter) {
    this.#limiter = create((windows, id, key) => {
      const rule = this.#rules[this.#keys.find(key)]
      if (rule) windows.setLimits(id, rule.limits)
    })
  }

  /** A new rule for this key; undefined if another one has the key. */
  add(key: Key, limits: readonly Limit[]): ExactRule | undefined {
    if (this.#keys.find(key) >= 0) return undefined
    const rule = new ExactRule(this.#limiter, key, limits)
    this.#rules[this.#keys.add(key)] = rule
    return rule
  }

  /** Drops the buckets of released rules. Returns whether there are others. */
  sweep(): boolean {
    const kept = this.#rules.filter(({ isReleased }) => !isReleased)
    if (kept.length < this.#rules.length) {
      this.#limiter.groups.buckets.remove(this.#rules.filter(({ isReleased }) => isReleased).map(({ key }) => key))
      this.#keys = new KeyTable(kept.length)
      for (const { key } of kept) this.#keys.add(key)
      this.#rules = kept
    }
    if (kept.length === 0) this.#limiter.release()
    return kept.length > 0
  }

  restartAligned(): void {
    this.#limiter.restartAligned()
  }
}

/** The limiter of one of them: for events with the key of the rule. */
export class ExactRule {
  readonly seed: number
  readonly key: Key
  readonly limits: readonly Limit[]
  isReleased = false
  readonly shared: KeyedLimiter
  /** The default bucket, which is used only if there is no room for the other one. */
  #default: Windows | undefined

  constructor(shared: KeyedLimiter, key: Key, limits: readonly Limit[]) {
    this.seed = shared.seed
    this.key = key
    this.limits = limits
    this.shared = shared
  }

  release(): void {
    this.isReleased = true
  }

  get groups(): { defaults: Windows; buckets: ExactRule; ofRules: ReadonlyMap<string, never> } {
    return { defaults: this.#defaults, buckets: this, ofRules: new Map<string, never>() }
  }

  get #defaults(): Windows {
    this.#default ??= createWindows(this.limits, this.shared.wall)
    return this.#default
  }

  *write(to: StateWriter, all: boolean, now: () => number, most: number): Generator<void> {
    this.shared.groups.buckets.writeOne(this.key, to, all, now())
    if (to.length >= most) yield
  }

  read(length: number, from: StateReader, seed: number): boolean {
    return this.shared.groups.buckets.read(length, from, seed)
  }

  take(key: PlacedKey, now: number): Taken {
    return this.shared.take(key, now)
  }

  takeCost(key: PlacedKey, now: number, cost: number, size: number): Taken {
    return this.shared.takeCost(key, now, cost, size)
  }

  takeDefault(now: number): typeof PASS | typeof DISCARD {
    return this.#defaults.take(0, now) ? PASS : DISCARD
  }

  takeDefaults(events: number, now: number): number {
    return this.#defaults.takeMany(0, events, now)
  }

  takeDefaultCost(now: number, cost: number, size: number): typeof PASS | typeof DISCARD {
    return this.#defaults.takeCost(0, now, cost, size) ? PASS : DISCARD
  }

  /** The level of the bucket with this key: an empty one if the rule does not hold for it. */
  level(key: PlacedKey, now: number, cost: number, size: number): Level | undefined {
    if (sameKeys(key, this.key)) return this.shared.level(key, now, cost, size)
    return createWindows(this.limits, this.shared.wall).level(0, now, cost, size)
  }

  levelOfDefault(now: number, cost: number, size: number): Level {
    return this.#defaults.level(0, now, cost, size)
  }

  roomAt(key: PlacedKey, now: number, cost: number, size: number): number | undefined {
    return this.shared.roomAt(key, now, cost, size)
  }

  roomAtOfDefault(now: number, cost: number, size: number): number {
    return this.#defaults.roomAt(0, now, cost, size)
  }

  restartAligned(): void {
    this.#default?.restartAligned()
  }
}
