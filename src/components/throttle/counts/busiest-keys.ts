import type { EventBatch } from '../../../core/event/batch.js'
import type { FieldReader } from '../../../core/event/field-reader.js'
import type { Clock } from '../../../lib/time.js'
import { BucketKey } from '../buckets/bucket-key.js'
import { bucketName } from '../buckets/bucket-name.js'
import { isCounted, isLost } from '../decisions.js'
import type { KeyCount, KeyCounts } from '../keyed-processor.js'
import { EventSampler } from './event-sampler.js'

/** Maximum number of events inspected per second. If there are more, only a sample is inspected. */
const LOOKS_PER_SECOND = 20_000
/** Maximum number of keys in memory. If there would be more, only the KEPT_KEYS busiest keys are kept. */
const MOST_KEYS = 4096
const KEPT_KEYS = 1024
/** Keys with more characters are shown by their `bucketName`. */
const LONGEST_KEY = 256

interface Count {
  passed: number
  discarded: number
}

/** Counts the decisions of a throttle by key while a client observes them. Work and memory are bounded. */
export class BusiestKeys {
  readonly #key: BucketKey
  readonly #sampler: EventSampler
  #counts = new Map<string | undefined, Count>()
  /** The keys in `#counts` that are names of buckets instead of texts. */
  readonly #named = new Set<string>()

  /** `fields`: the key's fields; if empty, all events share one bucket. `stands`: from the previous object. */
  constructor(fields: readonly FieldReader[], clock: Clock, stands = 1) {
    this.#key = new BucketKey(fields)
    this.#sampler = new EventSampler(clock, LOOKS_PER_SECOND, stands)
  }

  /** For the next object: how many events each inspected event should represent if the event rate stays the same. */
  get stands(): number {
    return this.#sampler.stands
  }

  /** Counts the decisions about a batch. Call before the events of the batch leave. */
  see(batch: EventBatch, decisions: Uint8Array): void {
    this.#sampler.choose(batch.length, (i, stands) => {
      const decision = decisions[i]!
      if (isCounted(decision)) this.#count(batch, i, isLost(decision), stands)
    })
  }

  #count(batch: EventBatch, i: number, discarded: boolean, stands: number): void {
    const key = this.#keyOf(batch, i)
    let count = this.#counts.get(key)
    if (!count) {
      if (this.#counts.size >= MOST_KEYS) this.#forget()
      count = { passed: 0, discarded: 0 }
      this.#counts.set(key, count)
    }
    if (discarded) count.discarded += stands
    else count.passed += stands
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
    this.#sampler.sampled = true
    this.#counts = new Map(this.#sorted().slice(0, KEPT_KEYS))
    for (const name of this.#named) if (!this.#counts.has(name)) this.#named.delete(name)
  }

  #sorted(): [string | undefined, Count][] {
    return [...this.#counts].sort(([, a], [, b]) => b.passed + b.discarded - a.passed - a.discarded)
  }

  /** Whether `key` is a name that replaces the text of a long key. */
  isName(key: string | null): boolean {
    return key !== null && this.#named.has(key)
  }

  busiest(most: number): KeyCounts {
    const keys = this.#sorted().slice(0, most)
    return {
      exact: !this.#sampler.sampled,
      keys: keys.map(([key, { passed, discarded }]): KeyCount => ({ key: key ?? null, passed, discarded })),
    }
  }
}
