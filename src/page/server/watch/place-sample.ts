import type { EventBatch } from '../../../core/event/batch.js'

/** If more than `most` events come, about `most` / SAMPLE_PART are chosen, since a sample takes less work. */
const SAMPLE_PART = 4
/**
 * If more than MANY * `most` events come, only about `most` / SAMPLE_PART_OF_MANY are chosen, because even a larger
 * sample would contain a given event only by luck.
 */
const [MANY, SAMPLE_PART_OF_MANY] = [100, 32]
/** At this rate, only the batches of one in SLICES time slices are inspected. A slice is 8 ms long. */
const [SLICES, OTHER_SLICES] = [8, 0x38]

/**
 * Chooses a bounded number of events per second by their place in the input. An event is chosen if a byte of its line
 * is at a multiple of `#step`. `#step` is a power of two. All components on a path thus choose the same events, as far
 * as their rates allow, and need not inspect most events of a batch. Long lines are chosen more often than short ones.
 */
export class PlaceSample {
  readonly #most: number
  #kept = 0
  #step = 1
  /** A bit mask. If the time at which a batch was read has one of these bits set, no event of the batch is chosen. */
  #others = 0

  /** `most`: maximum number of events chosen per second. */
  constructor(most: number) {
    this.#most = most
  }

  /** Begins a second. `events`: number of candidates in the last second; `size`: their average size in bytes. */
  second(events: number, size: number): void {
    const most = this.#most
    const isMany = events > MANY * most
    const part = isMany ? SAMPLE_PART_OF_MANY / SLICES : SAMPLE_PART
    this.#others = isMany ? OTHER_SLICES : 0
    this.#step = events > most ? 2 ** Math.ceil(Math.log2(Math.max(1, (events * size * part) / most))) : 1
    this.#kept = 0
  }

  /** Whether some events of the batch may be chosen. For most batches of a busy component, this is false. */
  wants(batch: EventBatch): boolean {
    if ((batch.receivedAt & this.#others) !== 0 || this.#kept >= this.#most) return false
    // Places that are derived from names are not in order.
    if (this.#step === 1 || batch.places !== undefined) return true
    const last = batch.length - 1
    return batch.sentOffsets?.covers(this.#step, batch.starts, last, batch.size(last) || 1) ?? true
  }

  /**
   * Calls `keep` with the index of each chosen event. If `to` is set, only the events whose entry in `to` equals
   * `value` are candidates.
   */
  choose(batch: EventBatch, keep: (i: number) => void, to?: Uint8Array, value = 0): void {
    if ((batch.receivedAt & this.#others) !== 0) return
    const { length } = batch
    // Some batches do not have places.
    const isOrdered = this.#step > 1 && batch.places === undefined && batch.reading !== ''
    const column = to?.subarray(0, length)
    const next = (i: number) => (column ? column.indexOf(value, i) : i < length ? i : -1)
    for (let i = next(0); i >= 0 && this.#kept < this.#most; ) {
      if (this.#isChosen(batch, i)) {
        this.#kept++
        keep(i)
        i = next(i + 1)
      } else i = next(isOrdered ? this.#after(batch, i) : i + 1)
    }
  }

  #isChosen(batch: EventBatch, i: number): boolean {
    return this.#multiple(batch, i) < batch.place(i) + Math.max(1, batch.size(i))
  }

  /** The smallest multiple of `#step` that is not before the beginning of event `i`. */
  #multiple(batch: EventBatch, i: number): number {
    return Math.ceil(batch.place(i) / this.#step) * this.#step
  }

  /** The first event after `i` whose end is beyond `#multiple(batch, i)`. */
  #after(batch: EventBatch, i: number): number {
    const multiple = this.#multiple(batch, i)
    let [low, high] = [i + 1, batch.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (batch.place(middle) + batch.size(middle) > multiple) high = middle
      else low = middle + 1
    }
    return low
  }
}
