import type { EventBatch } from '../../../core/event/batch.js'
import type { FieldReader } from '../../../core/event/field-reader.js'
import { PLAIN, PLAIN_TEXT } from '../../../core/event/plain-strings.js'
import { SLOT } from '../../../lib/formats/json-scan.js'
import { theKernel } from '../../../lib/kernel/kernel.js'
import type { Strings } from '../../../lib/kernel/strings.js'
import { LONGEST_KEY } from '../buckets/bucket-key.js'
import { dataViewOf, type KeyRanges } from '../buckets/key-table.js'

export interface BucketIds {
  /** Replaced by a new object whenever an id may refer to another bucket than before. */
  readonly layout: object
  /**
   * Finds the bucket ids of the first `length` events, and marks these buckets as used. `left`: how many of these
   * events do not have an id yet.
   */
  findAll(keys: KeyRanges, length: number, left: number): void
}

/** The keys of a batch's events and their bucket ids. Holds only keys that are plain strings or integers. */
export class BatchKeys implements KeyRanges {
  bytes = dataViewOf(Buffer.alloc(0))
  starts = new Int32Array(1024)
  ends = new Int32Array(1024)
  hashes = new Int32Array(1024)
  ids = new Int32Array(1024)
  found = new Int32Array(1024)
  foundCount = 0
  alone = new Int32Array(1024)
  aloneCount = 0
  readonly #field: FieldReader
  readonly #seed: number
  /** While the buckets have this layout, the ids that the kernel has learned are valid. */
  #layout: object | undefined
  #owner = 0

  constructor(field: FieldReader, seed: number) {
    this.#field = field
    this.#seed = seed
  }

  get owner(): number {
    return this.#owner
  }

  /**
   * Finds the bucket ids of a batch's events. Returns false if this is not possible. `isSkipped` is 1 for each event
   * that does not need a bucket. The ids are valid until `buckets.layout` changes.
   */
  find(batch: EventBatch, buckets: BucketIds, isSkipped: Uint8Array | undefined): boolean {
    const texts = batch.texts?.lines(batch)
    const slot = texts ? this.#field.slotInTexts(batch) : this.#field.slotIn(batch)
    const strings = slot < 0 ? undefined : theKernel()?.strings
    if (strings === undefined) return false
    const { length, chunk } = texts ?? batch
    if (this.ids.length < length) this.#grow(length * 2)
    const { layout } = buckets
    if (layout !== this.#layout) {
      this.#layout = layout
      this.#owner = strings.owner()
    }
    const by = { seed: this.#seed, longest: LONGEST_KEY, owner: this.#owner }
    const left = strings.hash(texts ?? batch, slot * SLOT, by, isSkipped, this, texts ? PLAIN_TEXT : PLAIN)
    if (left === undefined) return false
    this.bytes = dataViewOf(chunk)
    this.foundCount = this.aloneCount = 0
    buckets.findAll(this, length, left)
    this.#learn(strings, chunk)
    return true
  }

  #learn(strings: Strings, chunk: Buffer): void {
    const { starts, ends, hashes, ids, found, foundCount } = this
    for (let n = 0; n < foundCount; n++) {
      const i = found[n]!
      strings.learn(this.#owner, chunk, starts[i]!, ends[i]!, hashes[i]!, ids[i]!)
    }
  }

  #grow(length: number): void {
    this.starts = new Int32Array(length)
    this.ends = new Int32Array(length)
    this.hashes = new Int32Array(length)
    this.ids = new Int32Array(length)
    this.found = new Int32Array(length)
    this.alone = new Int32Array(length)
  }
}
