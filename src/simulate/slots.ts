/** Number of slots. Their length grows until they cover the whole time range. */
export const MOST_SLOTS = 240

/** A row of numbers for each slot. Column `column` of slot `slot` is cells[slot * width + column]. */
export interface SlotTable {
  cells: Float64Array
  readonly width: number
}

/**
 * Divides the time of the events into slots of equal length. The length is a power of two in milliseconds. When the
 * time range grows, the slots get longer, and the numbers of all tables move to the longer slots.
 */
export class TimeSlots {
  slotMs = 1
  /** Number of slots between the epoch and the first slot. */
  #first = 0
  #low = Number.POSITIVE_INFINITY
  #high = Number.NEGATIVE_INFINITY
  readonly #tables: SlotTable[] = []

  /** Creates a table of zeros. */
  table(width: number): SlotTable {
    const table = { cells: new Float64Array(MOST_SLOTS * width), width }
    this.#tables.push(table)
    return table
  }

  /** The slot of a time. The next call may renumber the slots. */
  slot(time: number): number {
    const slot = Math.floor(time / this.slotMs) - this.#first
    if (slot < 0 || slot >= MOST_SLOTS || this.#low > this.#high) {
      this.#makeRoom(time)
      return Math.floor(time / this.slotMs) - this.#first
    }
    if (time < this.#low) this.#low = time
    else if (time > this.#high) this.#high = time
    return slot
  }

  #makeRoom(time: number): void {
    const [low, high] = [Math.min(this.#low, time), Math.max(this.#high, time)]
    const { slotMs: oldMs } = this
    const oldFirst = this.#first
    while (Math.floor(high / this.slotMs) - Math.floor(low / this.slotMs) >= MOST_SLOTS) this.slotMs *= 2
    // If `time` is the earliest so far, the free slots are before `time`. Otherwise they are after the latest time.
    this.#first = Math.floor(time < this.#low ? high / this.slotMs : low / this.slotMs)
    if (time < this.#low && this.#low <= this.#high) this.#first -= MOST_SLOTS - 1
    this.#low = low
    this.#high = high
    for (const table of this.#tables) {
      const { cells, width } = table
      table.cells = new Float64Array(cells.length)
      for (let slot = 0; slot < MOST_SLOTS; slot++) {
        const to = Math.floor(((oldFirst + slot) * oldMs) / this.slotMs) - this.#first
        if (to < 0 || to >= MOST_SLOTS) continue
        for (let i = 0; i < width; i++) table.cells[to * width + i]! += cells[slot * width + i]!
      }
    }
  }

  /** The earliest and the latest time. Undefined if no time was seen. */
  get span(): { readonly from: number; readonly to: number } | undefined {
    return this.#low <= this.#high ? { from: this.#low, to: this.#high } : undefined
  }

  /** The range from the first to the last used slot. Undefined if no time was seen. */
  get used(): { readonly start: number; readonly slot_ms: number; readonly count: number } | undefined {
    if (this.#low > this.#high) return undefined
    const first = Math.floor(this.#low / this.slotMs)
    return {
      start: first * this.slotMs,
      slot_ms: this.slotMs,
      count: Math.floor(this.#high / this.slotMs) - first + 1,
    }
  }

  /** For each used slot: the sum of the table's columns from `from` to `to - 1`. */
  sums({ cells, width }: SlotTable, from: number, to: number): number[] {
    const { used } = this
    if (!used) return []
    const first = Math.floor(this.#low / this.slotMs) - this.#first
    return Array.from({ length: used.count }, (_, i) => {
      let sum = 0
      for (let column = from; column < to; column++) sum += cells[(first + i) * width + column]!
      return sum
    })
  }
}
