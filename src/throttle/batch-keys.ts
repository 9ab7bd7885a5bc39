import type { EventBatch } from '../core/event/batch.js'
import type { FieldReader } from '../core/event/field-reader.js'
import { hashStrings } from '../core/event/plain-strings.js'
import type { HashOptions } from '../kernel/strings.js'
import { LONGEST_KEY } from './bucket-key.js'
import { type Keys, viewOf } from './key-table.js'

/** The keys of all events of a batch, as far as their values are plain strings. */
export class BatchKeys implements Keys {
  bytes = viewOf(Buffer.alloc(0))
  starts = new Int32Array(1024)
  ends = new Int32Array(1024)
  hashes = new Int32Array(1024)
  ids = new Int32Array(1024)
  alone = new Int32Array(1024)
  count = 0
  readonly #field: FieldReader
  readonly #options: HashOptions

  /** `seed`: of the hashes. */
  constructor(field: FieldReader, seed: number) {
    this.#field = field
    this.#options = { seed, longest: LONGEST_KEY }
  }

  /** Loads the keys of a batch. `isSkipped`: 1 for each event that needs no bucket. False: they must be loaded alone. */
  load(batch: EventBatch, isSkipped: Uint8Array | undefined): boolean {
    const { length } = batch
    if (this.ids.length < length) this.#grow(length * 2)
    const slot = this.#field.slotIn(batch)
    if (slot < 0 || !hashStrings(batch, slot, this.#options, isSkipped, this)) return false
    this.bytes = viewOf(batch.chunk)
    return true
  }

  #grow(length: number): void {
    this.starts = new Int32Array(length)
    this.ends = new Int32Array(length)
    this.hashes = new Int32Array(length)
    this.ids = new Int32Array(length)
    this.alone = new Int32Array(length)
  }
}
