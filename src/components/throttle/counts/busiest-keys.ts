import type { KeyCount, KeyCounts } from '../../../core/component.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { FieldReader } from '../../../core/event/field-reader.js'
import type { Clock } from '../../../lib/time.js'
import { BucketKey } from '../buckets/bucket-key.js'
import { bucketName } from '../buckets/bucket-name.js'
import { DISCARD, EXCLUDED, FULL, NO_BACKEND, TOO_LATE, WAITS } from '../decisions.js'

const LOST: ReadonlySet<number> = new Set([DISCARD, FULL, TOO_LATE, NO_BACKEND])
/** Maximum number of events inspected per second. If there are more, only a sample is. */
const LOOKS_PER_SECOND = 20_000
/** Maximum number of keys in memory. Beyond it, only the busiest are kept. */
const MOST_KEYS = 4096
const KEPT_KEYS = 1024
/** Longer ones, in characters, are shown by a name. */
const LONGEST_KEY = 256

interface Count {
  passed: number
  discarded: number
}

/** Counts the decisions of a throttle by key while a client observes them. Work and memory are bounded. */
export class BusiestKeys {
  readonly #key: BucketKey
  readonly #clock: Clock
  #counts = new Map<string | undefined, Count>()
  /** The names among the keys. */
  readonly #named = new Set<string>()
  #secondAt: number
  #looks = 0
  /** How many events each inspected event represents. */
  #stands: number
  #sampled: boolean
  /** Number of events to skip before the next inspection. */
  #skip = 0
  #chance = 1

  /** `fields`: those of the key; none: all events share one bucket. `stands`: from the previous count. */
  constructor(fields: readonly FieldReader[], clock: Clock, stands = 1) {
    this.#key = new BucketKey(fields)
    this.#stands = stands
    this.#sampled = stands > 1
    this.#clock = clock
    this.#secondAt = clock.now()
  }

  /** How many events each inspected event should represent at the current rate. */
  get stands(): number {
    return this.#looks < LOOKS_PER_SECOND / 4 ? Math.max(1, this.#stands / 2) : this.#stands
  }

  /** Counts the decisions about a batch, before its events leave. */
  see(batch: EventBatch, decisions: Uint8Array): void {
    const now = this.#clock.now()
    if (now - this.#secondAt >= 1000) {
      this.#secondAt = now
      this.#stands = this.stands
      this.#looks = 0
    }
    let i = this.#skip
    for (; i < batch.length; i += this.#step()) {
      if (++this.#looks > LOOKS_PER_SECOND) {
        this.#looks = 0
        this.#stands *= 2
        this.#sampled = true
      }
      const decision = decisions[i]
      if (decision !== EXCLUDED && decision !== WAITS) this.#count(batch, i, LOST.has(decision!))
    }
    this.#skip = i - batch.length
  }

  /** The distance to the next event: random, so that keys that alternate are all seen. */
  #step(): number {
    if (this.#stands === 1) return 1
    this.#chance = (Math.imul(this.#chance, 1_103_515_245) + 12_345) & 0x7fffffff
    return 1 + ((this.#chance >>> 8) % (this.#stands * 2 - 1))
  }

  #count(batch: EventBatch, i: number, discarded: boolean): void {
    const key = this.#keyOf(batch, i)
    let count = this.#counts.get(key)
    if (!count) {
      if (this.#counts.size >= MOST_KEYS) this.#forget()
      count = { passed: 0, discarded: 0 }
      this.#counts.set(key, count)
    }
    if (discarded) count.discarded += this.#stands
    else count.passed += this.#stands
  }

  #keyOf(batch: EventBatch, i: number): string | undefined {
    if (!this.#key.load(batch, i)) return undefined
    const text = this.#key.text()
    if (text.length <= LONGEST_KEY) return text
    const name = bucketName(text)
    if (!this.#counts.has(name)) this.#named.add(name)
    return name
  }

  #forget(): void {
    this.#sampled = true
    this.#counts = new Map(this.#sorted().slice(0, KEPT_KEYS))
    for (const name of this.#named) if (!this.#counts.has(name)) this.#named.delete(name)
  }

  #sorted(): [string | undefined, Count][] {
    return [...this.#counts].sort(([, a], [, b]) => b.passed + b.discarded - a.passed - a.discarded)
  }

  /** Whether this is the name of a key that is too long, and not its text. */
  isName(key: string | null): boolean {
    return key !== null && this.#named.has(key)
  }

  busiest(most: number): KeyCounts {
    const keys = this.#sorted().slice(0, most)
    return {
      exact: !this.#sampled,
      keys: keys.map(([key, { passed, discarded }]): KeyCount => ({ key: key ?? null, passed, discarded })),
    }
  }
}
