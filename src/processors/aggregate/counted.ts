import type { Share } from '../../core/event/share.js'

/** The row of events whose keys are not counted apart. */
export const OTHERS = 0
/** The row of events without a key. */
export const WITHOUT_KEY = 1

/**
 * The numbers of all keys: a row of columns for each. Column 0 is the number of events. The rows of the open interval,
 * and those of all intervals before it.
 */
export class Counted {
  readonly #width: number
  readonly #most: number
  #rows = new Map<string, number>()
  #size = 2
  current: Float64Array
  #totals: Float64Array
  /** Of the batches with events of the open interval. */
  shares: Share[] = []
  /** When the open interval began, by the clock. */
  since: number

  /** `width`: columns of a key. `most`: keys that are counted apart. */
  constructor(width: number, most: number, now: number) {
    this.#width = width
    this.#most = most
    this.current = new Float64Array(width * 16)
    this.#totals = new Float64Array(width * 16)
    this.since = now
  }

  /** Where the columns of a key begin. Valid until the next call. */
  rowOf(key: string): number {
    return (this.#rows.get(key) ?? this.#add(key)) * this.#width
  }

  get withoutKey(): number {
    return WITHOUT_KEY * this.#width
  }

  /** The keys, with where their columns begin; null: no key, undefined: all others. Only those that have events. */
  *keys(values: Float64Array): Iterable<[key: string | null | undefined, row: number]> {
    const width = this.#width
    if (values[WITHOUT_KEY * width]! > 0) yield [null, WITHOUT_KEY * width]
    for (const [key, row] of this.#rows) if (values[row * width]! > 0) yield [key, row * width]
    if (values[OTHERS]! > 0) yield [undefined, OTHERS]
  }

  /** Of all intervals, with the open one. */
  totals(): Float64Array {
    return this.#totals.map((value, n) => value + this.current[n]!)
  }

  /** Begins an interval. If there is no room for further keys, those without events in the last one make room. */
  next(now: number): void {
    const last = this.current
    this.#totals = this.totals()
    if (this.#rows.size >= this.#most) this.#forgetIdle(last)
    this.current = new Float64Array(this.#totals.length)
    this.since = now
  }

  #add(key: string): number {
    if (this.#rows.size >= this.#most) return OTHERS
    const row = this.#size++
    if (this.#size * this.#width > this.current.length) {
      this.current = grown(this.current)
      this.#totals = grown(this.#totals)
    }
    this.#rows.set(key, row)
    return row
  }

  /** What idle keys had counted goes to the others. */
  #forgetIdle(last: Float64Array): void {
    const width = this.#width
    const before = this.#totals
    const kept = [...this.#rows].filter(([, row]) => last[row * width]! > 0)
    const totals = new Float64Array(Math.max(16, kept.length + 2) * width)
    totals.set(before.subarray(0, 2 * width))
    const stays = new Set(kept.map(([, row]) => row))
    for (const row of this.#rows.values()) {
      if (stays.has(row)) continue
      for (let column = 0; column < width; column++) totals[column]! += before[row * width + column]!
    }
    this.#rows = new Map(kept.map(([key], n) => [key, n + 2]))
    for (const [n, [, row]] of kept.entries())
      totals.set(before.subarray(row * width, (row + 1) * width), (n + 2) * width)
    this.#size = kept.length + 2
    this.#totals = totals
  }
}

function grown(values: Float64Array): Float64Array {
  const larger = new Float64Array(values.length * 2)
  larger.set(values)
  return larger
}
