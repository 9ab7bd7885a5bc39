import type { EventBatch } from '../../../core/event/batch.js'
import { resized } from '../../../lib/columns.js'
import { textBeginning } from '../buckets/bucket-name.js'
import type { EventKey } from '../buckets/event-key.js'
import { KeyTable } from '../buckets/key-table.js'

export interface DiscardCount {
  /** The name of the bucket; null for the default bucket. */
  readonly bucket: string | null
  readonly events: number
  readonly bytes: number
  /** When the first and the last of these events were discarded, in milliseconds of the wall clock. */
  readonly first: number
  readonly last: number
  /** The beginning of the first event; empty if samples are not wanted. */
  readonly sample: string
}

/** Maximum buckets counted at a time. */
const MOST_ROWS = 4096
const LONGEST_SAMPLE = 256
/** Columns of a row: events, bytes, first, last. */
const STRIDE = 4
/** Number of bits of a slot number. Slots hold the rows of known buckets. There are twice as many slots as rows. */
const SLOT_BITS = 13

/**
 * Counts discarded events by bucket until `drain` takes the counts. Finds a bucket by the bytes of its key, and creates
 * strings only for its first event. Holds at most 4,096 buckets. Call `drain` when the tally is full.
 */
export class DiscardTally {
  readonly #wantsSamples: boolean
  #keys = new KeyTable()
  #columns = new Float64Array(STRIDE * 64)
  #buckets: (string | null)[] = []
  #samples: string[] = []
  /**
   * For each slot: the id of the bucket that last used the slot (-1: unused), and the row of this bucket. Both are
   * valid while `owner` stays the same.
   */
  readonly #ids = new Int32Array(1 << SLOT_BITS).fill(-1)
  readonly #rows = new Int32Array(1 << SLOT_BITS)
  #owner = 0
  #last = 0

  constructor(wantsSamples: boolean) {
    this.#wantsSamples = wantsSamples
  }

  get isFull(): boolean {
    return this.#keys.size === MOST_ROWS
  }

  /**
   * Counts event `i` if `know` has recorded the row of its bucket. Returns whether the event was counted. `owner` and
   * `id`: as in BatchKeys. The row of a negative id is never known.
   */
  addKnown(owner: number, id: number, batch: EventBatch, i: number, wall: number): boolean {
    const slot = slotOf(id)
    if (id < 0 || owner !== this.#owner || this.#ids[slot] !== id) return false
    this.#count(this.#rows[slot]! * STRIDE, batch, i, wall)
    return true
  }

  /** Records the row of the event that `add` counted last, so that `addKnown` can find this row. */
  know(owner: number, id: number): void {
    if (id < 0) return
    if (owner !== this.#owner) {
      this.#owner = owner
      this.#ids.fill(-1)
    }
    const slot = slotOf(id)
    this.#ids[slot] = id
    this.#rows[slot] = this.#last
  }

  /**
   * Counts event `i`, which has this key. Call only if the tally is not full. `wall`: the current time. Returns whether
   * this is the bucket's first event.
   */
  add(key: EventKey, batch: EventBatch, i: number, wall: number): boolean {
    const known = this.#keys.find(key)
    const row = known < 0 ? this.#addRow(key, batch, i, wall) : known
    this.#count(row * STRIDE, batch, i, wall)
    this.#last = row
    return known < 0
  }

  #count(at: number, batch: EventBatch, i: number, wall: number): void {
    const columns = this.#columns
    columns[at]! += 1
    columns[at + 1]! += batch.size(i)
    columns[at + 3] = wall
  }

  #addRow(key: EventKey, batch: EventBatch, i: number, wall: number): number {
    const row = this.#keys.add(key)
    const at = row * STRIDE
    if (at === this.#columns.length) this.#columns = resized(this.#columns, at * 2)
    this.#columns[at] = this.#columns[at + 1] = 0
    this.#columns[at + 2] = wall
    this.#buckets.push(key.name())
    this.#samples.push(this.#wantsSamples ? sampleOf(batch, i) : '')
    return row
  }

  /** Calls `each` with all counts, and clears them. */
  drain(each: (count: DiscardCount) => void): void {
    const columns = this.#columns
    for (const [id, bucket] of this.#buckets.entries()) {
      const at = id * STRIDE
      each({
        bucket,
        events: columns[at]!,
        bytes: columns[at + 1]!,
        first: columns[at + 2]!,
        last: columns[at + 3]!,
        sample: this.#samples[id]!,
      })
    }
    if (this.#buckets.length === 0) return
    this.#keys = new KeyTable()
    this.#buckets = []
    this.#samples = []
    this.#ids.fill(-1)
  }
}

/** The slot of a bucket is a hash of the bucket's id, because the ids have gaps if the throttle has rules. */
const slotOf = (id: number) => Math.imul(id, 0x9e3779b1) >>> (32 - SLOT_BITS)

/** The beginning of event `i` in its present form, because a field may have been removed since the event was read. */
function sampleOf(batch: EventBatch, i: number): string {
  if (batch.texts?.has(i)) return textBeginning(batch.texts.text(i), LONGEST_SAMPLE)
  return textBeginning(batch.chunk.subarray(batch.starts[i], batch.ends[i]), LONGEST_SAMPLE)
}
