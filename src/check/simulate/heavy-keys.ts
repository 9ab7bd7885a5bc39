import type { SlotTable, TimeSlots } from './slots.js'

/** Numbers for each slot, of all keys and trials together. */
const SLOT_WIDTH = 1536
const MOST_ROWS = 128
const FEWEST_ROWS = 16
/** A key takes the row of another one when it has this many times its discards. */
const CLEARLY_MORE = 1.5
const NO_ROW = -1

/**
 * Discards over time of the heaviest keys, in bounded memory. A key gets a row with its first discard. When no row is
 * free, a key that is clearly heavier replaces the lightest one, and its row begins then.
 */
export class HeavyKeys {
  readonly #slots: TimeSlots
  readonly #trials: number
  /** For each slot, row and number of trials that discard: events, less those of which the trials after it discard some. */
  readonly #table: SlotTable
  readonly #keys: Int32Array
  #used = 0
  /** By id: the key's row, and its discards in the strictest trial. */
  #rows = new Int32Array(64).fill(NO_ROW)
  #totals = new Float64Array(64)
  /** Discards that a key needs for the row of another one. */
  #threshold = 0

  constructor(slots: TimeSlots, trials: number) {
    this.#slots = slots
    this.#trials = trials
    this.#keys = new Int32Array(Math.min(Math.max(Math.floor(SLOT_WIDTH / trials), FEWEST_ROWS), MOST_ROWS))
    this.#table = slots.table(this.#keys.length * trials)
  }

  /** Counts an event that the trials [from, to) discard, at least one. Called for each such run of trials. */
  add(id: number, from: number, to: number, slot: number): void {
    if (id >= this.#rows.length) this.#grow(id)
    const total = ++this.#totals[id]!
    let row = this.#rows[id]!
    if (row === NO_ROW) {
      if (total <= this.#threshold) return
      row = this.#rowFor(id, total)
      if (row === NO_ROW) return
    }
    const at = slot * this.#table.width + row * this.#trials - 1
    this.#table.cells[at + to]!++
    if (from > 0) this.#table.cells[at + from]!--
  }

  #rowFor(id: number, total: number): number {
    let row = this.#used
    if (row < this.#keys.length) this.#used++
    else {
      row = 0
      for (let other = 1; other < this.#used; other++)
        if (this.#totals[this.#keys[other]!]! < this.#totals[this.#keys[row]!]!) row = other
      this.#threshold = this.#totals[this.#keys[row]!]! * CLEARLY_MORE
      if (total <= this.#threshold) return NO_ROW
      this.#rows[this.#keys[row]!] = NO_ROW
      const { cells, width } = this.#table
      for (let at = row * this.#trials; at < cells.length; at += width) cells.fill(0, at, at + this.#trials)
    }
    this.#keys[row] = id
    this.#rows[id] = row
    return row
  }

  #grow(id: number): void {
    const size = Math.max(this.#rows.length * 2, id + 1)
    const rows = new Int32Array(size).fill(NO_ROW)
    rows.set(this.#rows)
    this.#rows = rows
    const totals = new Float64Array(size)
    totals.set(this.#totals)
    this.#totals = totals
  }

  /** The keys with the most discards in one trial, and these discards in each used slot. */
  most(trial: number, count: number): { readonly id: number; readonly discarded: number[] }[] {
    const rows = [...this.#keys.subarray(0, this.#used)].map((id, row) => {
      const first = row * this.#trials
      const discarded = this.#slots.sums(this.#table, first + trial, first + this.#trials)
      return { id, discarded, sum: discarded.reduce((sum, value) => sum + value, 0) }
    })
    return rows
      .filter(({ sum }) => sum > 0)
      .sort((a, b) => b.sum - a.sum || a.id - b.id)
      .slice(0, count)
      .map(({ id, discarded }) => ({ id, discarded }))
  }
}
