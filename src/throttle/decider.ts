import type { EventBatch } from '../core/batch.js'
import type { FieldReader } from '../core/field-reader.js'
import { BucketKey } from './bucket-key.js'
import { type DISCARD, FULL, KeyedLimiter, type LimiterOptions, type PASS } from './keyed-limiter.js'

/** What becomes of an event: PASS, DISCARD and FULL (of keyed-limiter.ts), or one of these. */
export const EXCLUDED = 3
/** A new key beyond `maxKeys` that passes all the same. */
export const FAIL_OPEN = 4
export type Decision = typeof PASS | typeof DISCARD | typeof FULL | typeof EXCLUDED | typeof FAIL_OPEN

export interface DeciderOptions extends LimiterOptions {
  readonly onMaxKeys: 'default_bucket' | 'pass' | 'discard'
  readonly exclude?: ((batch: EventBatch, i: number) => boolean) | undefined
  readonly keyField?: FieldReader | undefined
}

/** The throttle's decision for each event: exclude first, then the key, then its bucket. No clock of its own. */
export class Decider {
  /** The decision for each event of the batch that `decide` saw last. */
  decisions = new Uint8Array(1024)
  /** How many there were of each. */
  readonly counts = new Uint32Array(5)
  /** Whether the event that `decideOne` saw last was counted in the default bucket. */
  byDefault = false
  readonly #key = new BucketKey()
  readonly limiter: KeyedLimiter
  readonly #options: DeciderOptions

  constructor(options: DeciderOptions) {
    this.#options = options
    this.limiter = new KeyedLimiter(options)
  }

  /** Decides all events of a batch at one point in time. */
  decide(batch: EventBatch, now: number): void {
    const length = batch.length
    if (this.decisions.length < length) this.decisions = new Uint8Array(length * 2)
    this.counts.fill(0)
    this.limiter.advance(now)
    const { decisions, counts } = this
    for (let i = 0; i < length; i++) {
      const decision = this.decideOne(batch, i, now)
      decisions[i] = decision
      counts[decision]!++
    }
  }

  /** Decides one event; the limiter must have been advanced to `now`. */
  decideOne(batch: EventBatch, i: number, now: number): Decision {
    const { exclude, keyField, onMaxKeys } = this.#options
    this.byDefault = false
    if (exclude?.(batch, i)) return EXCLUDED
    if (keyField === undefined || !this.#hasKey(batch, i, keyField)) return this.#takeDefault(now)
    const key = this.#key
    const taken = this.limiter.take(key.bytes, key.start, key.end, now)
    if (taken !== FULL || onMaxKeys === 'discard') return taken
    return onMaxKeys === 'pass' ? FAIL_OPEN : this.#takeDefault(now)
  }

  #hasKey(batch: EventBatch, i: number, keyField: FieldReader): boolean {
    keyField.load(batch, i)
    return this.#key.read(keyField)
  }

  #takeDefault(now: number): typeof PASS | typeof DISCARD {
    this.byDefault = true
    return this.limiter.takeDefault(now)
  }
}
