import type { Share } from '../../../core/event/ack.js'
import { resized } from '../../../lib/columns.js'
import type { BucketKey } from '../../throttle/buckets/bucket-key.js'
import { bucketName } from '../../throttle/buckets/bucket-name.js'
import { KeyTable, randomSeed } from '../../throttle/buckets/key-table.js'

/** The row of events whose keys are not counted separately. */
export const OTHERS_ROW = 0
export const WITHOUT_KEY = 1
/** The row of the first key; the rows of other keys follow, in the order of their ids. */
const KEYED = 2

/** `take` reserves room for the series of a key, or returns false if no room is left. `free` gives it back. */
export interface SeriesOfKeys {
  take(): boolean
  free(): void
}

/**
 * Holds two rows of numbers for each key: one for the open interval, and one with the sums of all earlier intervals.
 * Column 0 counts events.
 */
export class IntervalCounts {
  readonly seed = randomSeed()
  readonly #width: number
  readonly #most: number
  readonly #table = new KeyTable()
  readonly #names: string[] = []
  /** By key id: whether the key has series of its own. */
  readonly #shown: boolean[] = []
  #room: SeriesOfKeys = { take: () => true, free() {} }
  current: Float64Array
  #totals: Float64Array
  /** Shares in acknowledgements. Each batch that has events of the open interval has one share. */
  shares: Share[] = []
  /** When the open interval began, on the monotonic clock. */
  since: number

  /** `width`: number of columns for each key. `most`: maximum number of keys that are counted separately. */
  constructor(width: number, most: number, now: number) {
    this.#width = width
    this.#most = most
    this.current = new Float64Array(width * 16)
    this.#totals = new Float64Array(width * 16)
    this.since = now
  }

  /**
   * Keys have their own series while there is room. If a key did not get room, it does not get series later, because
   * its counts are already part of `__other__`.
   */
  showIn(room: SeriesOfKeys): void {
    this.#room = room
    for (const [id, isShown] of this.#shown.entries()) if (isShown) this.#shown[id] = this.#room.take()
  }

  /** Returns the index of a key's first column. The index is valid until `next` is called. */
  rowOf(key: BucketKey): number {
    const id = this.#table.find(key)
    return (id >= 0 ? id + KEYED : this.#add(key)) * this.#width
  }

  get withoutKey(): number {
    return WITHOUT_KEY * this.#width
  }

  /**
   * Yields each key that has events in `values`, and the index of the key's first column. The key null stands for
   * events without a key. The key undefined stands for all keys without a row of their own.
   */
  *keys(values: Float64Array): Iterable<[key: string | null | undefined, row: number]> {
    const width = this.#width
    if (values[WITHOUT_KEY * width]! > 0) yield [null, WITHOUT_KEY * width]
    for (const [id, name] of this.#names.entries()) {
      const row = (id + KEYED) * width
      if (values[row]! > 0) yield [name, row]
    }
    if (values[OTHERS_ROW]! > 0) yield [undefined, OTHERS_ROW]
  }

  /** The sums of all intervals, including the open one. */
  totals(): Float64Array {
    return this.#totals.map((value, n) => value + this.current[n]!)
  }

  /** Like `totals`, but for series. The counts of keys without series of their own are added to `__other__`. */
  shownTotals(): Float64Array {
    const values = this.totals()
    const width = this.#width
    for (const [id, isShown] of this.#shown.entries()) {
      if (isShown) continue
      const row = (id + KEYED) * width
      for (let column = 0; column < width; column++) values[OTHERS_ROW * width + column]! += values[row + column]!
      values[row] = 0
    }
    return values
  }

  /**
   * Begins an interval. If more keys or series would not fit, removes the keys that had no event in the interval that
   * ended.
   */
  next(now: number): void {
    const last = this.current
    this.#totals = this.totals()
    if (this.#table.size >= this.#most || this.#shown.includes(false)) this.#forgetIdle(last)
    this.current = new Float64Array(this.#totals.length)
    this.since = now
  }

  #add(key: BucketKey): number {
    const text = key.text()
    const name = bucketName(text)
    // Two texts that are not well-formed may get the same name. So the key of such a text is the name, not the text.
    if (!text.isWellFormed()) key.setBytes(Buffer.from(name))
    const known = this.#table.find(key)
    if (known >= 0) return known + KEYED
    if (this.#table.size >= this.#most) return OTHERS_ROW
    const row = this.#table.add(key) + KEYED
    this.#names.push(name)
    this.#shown.push(this.#room.take())
    if ((row + 1) * this.#width > this.current.length) {
      this.current = resized(this.current, this.current.length * 2)
      this.#totals = resized(this.#totals, this.#totals.length * 2)
    }
    return row
  }

  /** Removes idle keys, and adds their counts to `__other__`. */
  #forgetIdle(last: Float64Array): void {
    const width = this.#width
    const totals = this.#totals
    const names = this.#names
    const shown = this.#shown
    let kept = 0
    this.#table.keep((id, to) => {
      const row = (id + KEYED) * width
      if (last[row]! > 0) {
        totals.copyWithin((to + KEYED) * width, row, row + width)
        names[to] = names[id]!
        shown[to] = shown[id]!
        kept = to + 1
        return true
      }
      for (let column = 0; column < width; column++) totals[column]! += totals[row + column]!
      if (shown[id]) this.#room.free()
      return false
    })
    names.length = kept
    shown.length = kept
    totals.fill(0, (kept + KEYED) * width)
  }
}
