import type { EventBatch } from '../../../core/event/batch.js'
import type { Clock } from '../../../lib/time.js'

/** If more events come than `most`, about `most` / SAMPLE_PART are chosen: a sample takes less work. */
const SAMPLE_PART = 4
/** If more than MANY times `most` come, about `most` / SAMPLE_PART_OF_MANY: finding one of them is luck anyway. */
const [MANY, SAMPLE_PART_OF_MANY] = [100, 16]

/**
 * Chooses a bounded number of events per second by their place in the input: an event is chosen if its line covers a
 * multiple of `#step` bytes, a power of two. So all components on a path choose the same events, as far as their rates
 * allow, and most of a batch is skipped. Long lines are chosen more often.
 */
export class PlaceSample {
  readonly #most: number
  readonly #clock: Clock
  #secondAt: number
  #kept = 0
  /** Events and bytes to choose from in this second. */
  #events = 0
  #bytes = 0
  #step = 1

  /** `most`: maximum number of events chosen per second. */
  constructor(most: number, clock: Clock) {
    this.#most = most
    this.#clock = clock
    this.#secondAt = clock.now()
  }

  /** Calls `keep` with the chosen events. `events`: number of candidates. With `to`, these have `value` there. */
  choose(batch: EventBatch, events: number, keep: (i: number) => void, to?: Uint8Array, value = 0): void {
    const now = this.#clock.now()
    if (now - this.#secondAt >= 1000) this.#begin(now)
    this.#events += events
    this.#bytes += (batch.bytes / batch.length) * events
    if (this.#kept >= this.#most) return
    const { length } = batch
    // Places that come from names are not in order, and some batches do not have places.
    const isOrdered = this.#step > 1 && batch.places === undefined && batch.reading !== ''
    if (isOrdered && this.#multiple(batch, 0) >= batch.place(length - 1) + batch.size(length - 1)) return
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

  #begin(now: number): void {
    const isOver = this.#events > this.#most
    const part = this.#events > MANY * this.#most ? SAMPLE_PART_OF_MANY : SAMPLE_PART
    this.#step = isOver ? 2 ** Math.ceil(Math.log2(Math.max(1, (this.#bytes * part) / this.#most))) : 1
    this.#secondAt = now
    this.#kept = this.#events = this.#bytes = 0
  }

  #isChosen(batch: EventBatch, i: number): boolean {
    return this.#multiple(batch, i) < batch.place(i) + Math.max(1, batch.size(i))
  }

  /** The first multiple of `#step` at the beginning of event `i` or after it. */
  #multiple(batch: EventBatch, i: number): number {
    return Math.ceil(batch.place(i) / this.#step) * this.#step
  }

  /** The first event after event `i` that ends after the next multiple. */
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
