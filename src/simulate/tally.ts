import { DISCARD, EXCLUDED } from '../components/throttle/decisions.js'
import { resized } from '../lib/columns.js'
import { type KeyIds, OTHERS } from './key-ids.js'
import type { KeyResult, OtherKeys, TimeResult, TrialResult } from './result.js'
import type { SlotTable, TimeSlots } from './slots.js'
import type { Outcome } from './trial.js'

/**
 * Columns for each key. Each outcome: events and bytes. Current window: start and events (OPENED, DEMAND). Busiest
 * window: events and start.
 */
const PASSED = 0
const DISCARDED = 2
const LEFT_OUT = 4
const OPENED = 6
const DEMAND = 7
const BUSIEST = 8
const BUSIEST_AT = 9
export const TALLY_WIDTH = 10

/** Number of keys whose discards over time are reported. */
const KEYS_OVER_TIME = 12
/**
 * Maximum number of keys, in all trials together, whose discards over time are counted. FEWEST_ROWS and MOST_ROWS are
 * the bounds for one trial.
 */
const ALL_ROWS = 1536
const FEWEST_ROWS = 16
const MOST_ROWS = 128

interface TallyOptions {
  readonly ids: KeyIds
  readonly slots: TimeSlots
  readonly windowMs: number
  readonly aligned: boolean
  /** Number of trials that share the memory for keys over time. */
  readonly trials: number
}

/** Counts the outcomes of a trial by key and over time. */
export class TrialTally {
  readonly #ids: KeyIds
  readonly #slots: TimeSlots
  readonly #windowMs: number
  readonly #aligned: boolean
  #columns = new Float64Array(TALLY_WIDTH * 64)
  /** For each slot: the numbers of passed, discarded and excluded events. */
  readonly #times: SlotTable
  readonly #heavy: HeavyKeys

  constructor({ ids, slots, windowMs, aligned, trials }: TallyOptions) {
    this.#ids = ids
    this.#slots = slots
    this.#windowMs = windowMs
    this.#aligned = aligned
    this.#times = slots.table(3)
    this.#heavy = new HeavyKeys(slots, Math.min(Math.max(Math.floor(ALL_ROWS / trials), FEWEST_ROWS), MOST_ROWS))
  }

  /** `slot`: -1 if no event had a time yet. */
  add(id: number, outcome: Outcome, bytes: number, time: number, slot: number): void {
    const at = id * TALLY_WIDTH
    if (at >= this.#columns.length) this.#columns = grown(this.#columns, at + TALLY_WIDTH)
    const columns = this.#columns
    const column = outcome === EXCLUDED ? LEFT_OUT : outcome === DISCARD ? DISCARDED : PASSED
    columns[at + column]!++
    columns[at + column + 1]! += bytes
    if (slot >= 0) {
      this.#times.cells[slot * 3 + column / 2]!++
      if (outcome === DISCARD) this.#heavy.add(id, slot)
    }
    if (outcome === EXCLUDED) return
    if (columns[at + DEMAND] === 0 || time - columns[at + OPENED]! >= this.#windowMs) {
      columns[at + OPENED] = this.#aligned ? Math.floor(time / this.#windowMs) * this.#windowMs : time
      columns[at + DEMAND] = 0
    }
    const demand = ++columns[at + DEMAND]!
    if (demand <= columns[at + BUSIEST]!) return
    columns[at + BUSIEST] = demand
    columns[at + BUSIEST_AT] = columns[at + OPENED]!
  }

  #sum(column: number): number {
    let sum = 0
    for (let at = column; at < this.#columns.length; at += TALLY_WIDTH) sum += this.#columns[at]!
    return sum
  }

  get totals(): OtherKeys {
    return { ...countsIn(column => this.#sum(column)), keys: this.#ids.size }
  }

  get excluded(): { readonly events: number; readonly bytes: number } {
    return { events: this.#sum(LEFT_OUT), bytes: this.#sum(LEFT_OUT + 1) }
  }

  /** The first `most` keys by discarded events (ties: by events), highest first, and the exact sum of all others. */
  byKey(most: number): Pick<TrialResult, 'losing_keys' | 'by_key' | 'others'> {
    const columns = this.#columns
    const discarded = (id: number) => columns[id * TALLY_WIDTH + DISCARDED]!
    const events = (id: number) => {
      const at = id * TALLY_WIDTH
      return columns[at + PASSED]! + columns[at + DISCARDED]! + columns[at + LEFT_OUT]!
    }
    const ids = Array.from({ length: Math.floor(columns.length / TALLY_WIDTH) }, (_, id) => id)
      .filter(id => id !== OTHERS && events(id) > 0)
      .sort((a, b) => discarded(b) - discarded(a) || events(b) - events(a) || a - b)
    const others = { ...this.totals, keys: Math.max(ids.length - most, 0) }
    const by_key = ids.slice(0, most).map((id): KeyResult => {
      const row = columns.subarray(id * TALLY_WIDTH, (id + 1) * TALLY_WIDTH)
      const counts = countsIn(column => row[column]!)
      for (const name of Object.keys(counts) as (keyof typeof counts)[]) others[name] -= counts[name]
      const busiest = row[BUSIEST]!
      return { key: this.#ids.text(id), ...counts, busiest, busiest_at: busiest > 0 ? row[BUSIEST_AT]! : null }
    })
    const losing_keys = ids.filter(id => discarded(id) > 0).length
    return {
      losing_keys,
      by_key,
      others: others.keys > 0 || events(OTHERS) > 0 ? others : null,
    }
  }

  get overTime(): TimeResult {
    const sums = (column: number) => this.#slots.sums(this.#times, column, column + 1)
    const [passed, discarded, excluded] = [sums(0), sums(1), sums(2)]
    const by_key = this.#heavy
      .most(KEYS_OVER_TIME)
      .filter(({ id }) => id !== OTHERS)
      .map(({ id, discarded }) => ({ key: this.#ids.text(id), discarded }))
    const others = discarded.map((sum, slot) => by_key.reduce((rest, row) => rest - row.discarded[slot]!, sum))
    return { passed, discarded, excluded, by_key, others }
  }
}

function countsIn(value: (column: number) => number): Omit<OtherKeys, 'keys'> {
  return {
    passed: value(PASSED),
    discarded: value(DISCARDED),
    excluded: value(LEFT_OUT),
    passed_bytes: value(PASSED + 1),
    discarded_bytes: value(DISCARDED + 1),
  }
}

/** A key takes another key's row only if its discards are more than the other's discards times this factor. */
const CLEARLY_MORE = 1.5

/**
 * Counts the discards over time, in bounded memory, for the keys with the most discards. A key gets a row at its first
 * discard. If no row is free, a key with clearly more discards takes and clears the row of the key with the fewest.
 */
export class HeavyKeys {
  readonly #slots: TimeSlots
  readonly #table: SlotTable
  /** By id: the row of the key. */
  readonly #rows = new Map<number, number>()
  /** By id: the discards of the key. */
  #totals = new Float64Array(64)
  /** A key needs more discards than this to take the row of another key. */
  #threshold = 0

  /** `rows`: maximum number of keys with a row. */
  constructor(slots: TimeSlots, rows: number) {
    this.#slots = slots
    this.#table = slots.table(rows)
  }

  add(id: number, slot: number): void {
    if (id >= this.#totals.length) this.#totals = grown(this.#totals, id + 1)
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

  /** The `count` keys with the most discards, and their discards in each used slot. */
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

/** Returns a longer copy of `numbers`, an array indexed by key id. The copy has room for at least `least` numbers. */
function grown(numbers: Float64Array<ArrayBuffer>, least: number): Float64Array<ArrayBuffer> {
  return resized(numbers, Math.max(numbers.length * 2, least))
}
