import type { EventBatch } from '../../../core/event/batch.js'
import type { FieldReader } from '../../../core/event/field-reader.js'
import { BucketKey } from '../buckets/bucket-key.js'
import { EXCLUDED } from '../decisions.js'

/** Detects that events do not have the key of a throttle, so that all these events share one bucket. */
export class MissingKey {
  /** Number of counted events without the key; 0 after any event had the key. */
  events = 0
  readonly #key: BucketKey
  #isFound: boolean

  constructor(fields: readonly FieldReader[]) {
    this.#key = new BucketKey(fields)
    this.#isFound = fields.length === 0
  }

  /** Checks the first batch with events that are not excluded. Returns true if all these events lack the key. */
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
