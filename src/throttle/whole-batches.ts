import type { EventBatch } from '../core/event/batch.js'
import type { FieldReader } from '../core/event/field-reader.js'
import { BatchKeys } from './batch-keys.js'
import type { BucketPart } from './bucket-part.js'
import type { DeciderOptions } from './decider.js'
import { EXCLUDED, type FAIL_OPEN } from './decisions.js'
import { NONE } from './key-table.js'
import type { KeyedLimiter } from './keyed-limiter.js'
import { DISCARD, PASS, type Taken } from './limiter.js'
import type { Windows } from './windows.js'

const PAUSE = 16

/** Decides on an event that is not excluded. */
type Take = (batch: EventBatch, i: number, now: number) => Taken | typeof FAIL_OPEN

/**
 * Decides on all events of a batch in a few loops over columns, where each event costs 1 and there are no rules. It
 * decides as they would be one by one: takes of different buckets do not depend on each other, as long as no bucket is
 * added or dropped. Events for which that may happen, or whose key is not a plain string, are taken alone, in order.
 */
export class WholeBatches {
  readonly #limiter: KeyedLimiter
  readonly #exclude: DeciderOptions['exclude']
  /** Undefined: all events belong to the default bucket. */
  readonly #keys: BatchKeys | undefined
  readonly #take: Take
  #excluded = new Uint8Array(1024)
  /** The number of batches that it leaves to others, since it could not decide on most events of the last one. */
  #pause = 0

  constructor(limiter: KeyedLimiter, exclude: DeciderOptions['exclude'], field: FieldReader | undefined, take: Take) {
    this.#limiter = limiter
    this.#exclude = exclude
    this.#keys = field && new BatchKeys(field, limiter.seed)
    this.#take = take
  }

  /** Writes the decisions, and counts them, where it can. False: it cannot, and has done nothing. */
  decide(batch: EventBatch, now: number, decisions: Uint8Array, counts: Uint32Array): boolean {
    const keys = this.#keys
    if (keys === undefined) {
      this.#decideByDefault(batch, now, decisions, counts)
      return true
    }
    const part = this.#limiter.undivided
    if (part === undefined || this.#pause-- > 0) return false
    const excluded = this.#exclude && this.#excludedOf(batch, this.#exclude)
    const { length } = batch
    this.#pause = 0
    if (!keys.find(batch, part, excluded)) return false
    if (keys.aloneCount * 4 > length * 3) {
      this.#pause = PAUSE
      return false
    }
    if (excluded !== undefined) {
      decisions.fill(EXCLUDED, 0, length)
      let count = 0
      for (let i = 0; i < length; i++) count += excluded[i]!
      counts[EXCLUDED] = count
    }
    this.#decideByKeys(batch, keys, part, now, decisions, counts)
    return true
  }

  #excludedOf(batch: EventBatch, exclude: NonNullable<DeciderOptions['exclude']>): Uint8Array {
    if (this.#excluded.length < batch.length) this.#excluded = new Uint8Array(batch.length * 2)
    exclude.all(batch, this.#excluded)
    return this.#excluded
  }

  #decideByDefault(batch: EventBatch, now: number, decisions: Uint8Array, counts: Uint32Array): void {
    const { length } = batch
    const excluded = this.#exclude && this.#excludedOf(batch, this.#exclude)
    let left = length
    if (excluded !== undefined) for (let i = 0; i < length; i++) left -= excluded[i]!
    const passed = this.#limiter.takeDefaults(left, now)
    counts[EXCLUDED] = length - left
    counts[PASS] = passed
    counts[DISCARD] = left - passed
    if (excluded === undefined) {
      decisions.fill(PASS, 0, passed).fill(DISCARD, passed, length)
      return
    }
    for (let i = 0, taken = 0; i < length; i++) {
      if (excluded[i] === 1) decisions[i] = EXCLUDED
      else decisions[i] = taken++ < passed ? PASS : DISCARD
    }
  }

  #decideByKeys(
    batch: EventBatch,
    keys: BatchKeys,
    part: BucketPart<Windows>,
    now: number,
    decisions: Uint8Array,
    counts: Uint32Array,
  ): void {
    const { length } = batch
    const { layout } = part
    let discarded = 0
    let from = 0
    let alone = 0
    const decideAlone = (i: number) => {
      const decision = this.#take(batch, i, now)
      decisions[i] = decision
      counts[decision]!++
      alone++
    }
    for (let n = 0; n < keys.aloneCount && part.layout === layout; n++) {
      const i = keys.alone[n]!
      if (from < i) discarded += part.windows.takeAll(keys.ids, from, i, now, decisions)
      decideAlone(i)
      from = i + 1
    }
    // Once buckets were dropped, others have their ids.
    if (part.layout === layout) discarded += part.windows.takeAll(keys.ids, from, length, now, decisions)
    else for (; from < length; from++) if (keys.ids[from] !== NONE) decideAlone(from)
    counts[DISCARD]! += discarded
    counts[PASS]! += length - counts[EXCLUDED]! - alone - discarded
  }
}
