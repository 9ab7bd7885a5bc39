import type { SlotTable, TimeSlots } from './slots.js'

/** A key takes the row of another one when it has this many times its discards. */
const CLEARLY_MORE = 1.5

/**
 * Discards over time of the heaviest keys, in bounded memory. A key gets a row with its first discard. When no row is
 * free, a key that is clearly heavier replaces the lightest one, and its row begins then.
 */
export class HeavyKeys {
  readonly #slots: TimeSlots
  readonly #table: SlotTable
  /** By id: the row of the key. */
  readonly #rows = new Map<number, number>()
  /** By id: the discards of the key. */
  #totals = new Float64Array(64)
  /** Discards that a key needs for the row of another one. */
  #threshold = 0

  /** `rows`: how many keys can have one. */
  constructor(slots: TimeSlots, rows: number) {
    this.#slots = slots
    this.#table = slots.table(rows)
  }

  /** Counts an event that was discarded. */
  add(id: number, slot: number): void {
    if (id >= this.#totals.length) {
      const totals = new Float64Array(Math.max(this.#totals.length * 2, id + 1))
      totals.set(this.#totals)
      this.#totals = totals
    }
    const total = ++this.#totals[id]!
    const row = this.#rows.get(id) ?? this.#rowFor(id, total)
    if (row !== undefined) this.#table.cells[slot * this.#table.width + row]!++
  }

  #rowFor(id: number, total: number): number | undefined {
    if (total <= this.#threshold) return undefined
    let row = this.#rows.size
    const { cells, width } = this.#table
    if (row === width) {
      const totals = this.#totals
      const byWeight = [...this.#rows].sort(([a, rowA], [b, rowB]) => totals[a]! - totals[b]! || rowA - rowB)
      const [lightest, lightestRow] = byWeight[0]!
      this.#threshold = totals[lightest]! * CLEARLY_MORE
      if (total <= this.#threshold) return undefined
      row = lightestRow
      this.#rows.delete(lightest)
      for (let at = row; at < cells.length; at += width) cells[at] = 0
    }
    this.#rows.set(id, row)
    return row
  }

  /** The keys with the most discards, and these in each used slot. */
  most(count: number): { readonly id: number; readonly discarded: number[] }[] {
    return [...this.#rows]
      .map(([id, row]) => {
        const discarded = this.#slots.sums(this.#table, row, row + 1)
        return { id, discarded, sum: discarded.reduce((sum, value) => sum + value, 0) }
      })
      .sort((a, b) => b.sum - a.sum || a.id - b.id)
      .slice(0, count)
      .map(({ id, discarded }) => ({ id, discarded }))
  }
}
