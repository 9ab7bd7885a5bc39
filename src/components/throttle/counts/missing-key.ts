import type { EventBatch } from '../../../core/event/batch.js'
import type { FieldReader } from '../../../core/event/field-reader.js'
import { BucketKey } from '../buckets/bucket-key.js'
import { EXCLUDED } from '../decisions.js'

/** Notices that no event has the key of a throttle, so that all of them share one bucket. */
export class MissingKey {
  /** Events that were counted; 0 from the first one on that has the key. */
  events = 0
  readonly #key: BucketKey
  #isFound: boolean

  /** `fields`: of the key; without any, none can be missing. */
  constructor(fields: readonly FieldReader[]) {
    this.#key = new BucketKey(fields)
    this.#isFound = fields.length === 0
  }

  /** True once: if no event of the first batch that is counted has it. */
  see(batch: EventBatch, decisions: Uint8Array): boolean {
    if (this.#isFound) return false
    const isFirst = this.events === 0
    for (let i = 0; i < batch.length; i++) {
      if (decisions[i] === EXCLUDED) continue
      if (this.#key.load(batch, i)) {
        this.#isFound = true
        this.events = 0
        return false
      }
      this.events++
    }
    return isFirst && this.events > 0
  }
}
