import type { Outcome } from './grid-windows.js'
import { HeavyKeys } from './heavy-keys.js'
import { type KeyIds, OTHERS } from './key-ids.js'
import type { KeyResult, OtherKeys, TimeResult, TrialResult } from './result.js'
import type { SlotTable, TimeSlots } from './slots.js'

/**
 * Columns for each key; then follow events and bytes for each number of first trials that discard. Where trials discard
 * after one that does not, one event less is counted up to that one, and one more up to them.
 */
const EXCLUDED = 0
const EXCLUDED_BYTES = 1
const OPENED = 2
const DEMAND = 3
const BUSIEST = 4
const BUSIEST_AT = 5
const LOST = 6

/** Number of keys whose discards over time are given. */
const KEYS_OVER_TIME = 12

export interface TallyOptions {
  readonly ids: KeyIds
  readonly slots: TimeSlots
  /** Trials that differ in their limits alone, the lowest first. What one discards, most before it discard as well. */
  readonly trials: number
  readonly windowMs: number
  readonly aligned: boolean
}

/** Counts the outcomes of several trials by key and over time, in one step for each event. */
export class TrialTally {
  readonly #ids: KeyIds
  readonly #slots: TimeSlots
  readonly #trials: number
  readonly #windowMs: number
  readonly #aligned: boolean
  readonly #width: number
  #columns: Float64Array
  /** For each slot: excluded events, then events for each number of trials that discard. */
  readonly #times: SlotTable
  readonly #heavy: HeavyKeys

  constructor({ ids, slots, trials, windowMs, aligned }: TallyOptions) {
    this.#ids = ids
    this.#slots = slots
    this.#trials = trials
    this.#windowMs = windowMs
    this.#aligned = aligned
    this.#width = tallyWidth(trials)
    this.#columns = new Float64Array(this.#width * 64)
    this.#times = slots.table(trials + 2)
    this.#heavy = new HeavyKeys(slots, trials)
  }

  /** Counts an event that the first `lost` trials discard. `slot`: -1 if no event had a time yet. */
  add(id: number, lost: number, bytes: number, time: number, slot: number): void {
    const at = id * this.#width
    if (at >= this.#columns.length) this.#grow(at)
    const columns = this.#columns
    columns[at + LOST + 2 * lost]!++
    columns[at + LOST + 2 * lost + 1]! += bytes
    if (slot >= 0) {
      this.#times.cells[slot * this.#times.width + 1 + lost]!++
      if (lost > 0) this.#heavy.add(id, 0, lost, slot)
    }
    if (columns[at + DEMAND] === 0 || time - columns[at + OPENED]! >= this.#windowMs) {
      columns[at + OPENED] = this.#aligned ? Math.floor(time / this.#windowMs) * this.#windowMs : time
      columns[at + DEMAND] = 0
    }
    const demand = ++columns[at + DEMAND]!
    if (demand <= columns[at + BUSIEST]!) return
    columns[at + BUSIEST] = demand
    columns[at + BUSIEST_AT] = columns[at + OPENED]!
  }

  /** Counts the event just added in trials that discard it, too, after the first `lost` ones and one that does not. */
  addFurther(id: number, outcome: Outcome, lost: number, bytes: number, slot: number): void {
    for (let from = outcome.indexOf(1, lost); from >= 0; from = outcome.indexOf(1, lost)) {
      const passes = outcome.indexOf(0, from)
      lost = passes < 0 ? this.#trials : passes
      this.#move(id, from, lost, bytes, slot)
    }
  }

  #move(id: number, from: number, to: number, bytes: number, slot: number): void {
    const at = id * this.#width + LOST
    const columns = this.#columns
    columns[at + 2 * from]!--
    columns[at + 2 * from + 1]! -= bytes
    columns[at + 2 * to]!++
    columns[at + 2 * to + 1]! += bytes
    if (slot < 0) return
    const { cells, width } = this.#times
    cells[slot * width + 1 + from]!--
    cells[slot * width + 1 + to]!++
    this.#heavy.add(id, from, to, slot)
  }

  addExcluded(id: number, bytes: number, slot: number): void {
    const at = id * this.#width
    if (at >= this.#columns.length) this.#grow(at)
    this.#columns[at + EXCLUDED]!++
    this.#columns[at + EXCLUDED_BYTES]! += bytes
    if (slot >= 0) this.#times.cells[slot * this.#times.width]!++
  }

  #grow(at: number): void {
    const larger = new Float64Array(Math.max(this.#columns.length * 2, at + this.#width))
    larger.set(this.#columns)
    this.#columns = larger
  }

  /** The counts of the key whose columns are `row`. */
  #counts(row: Float64Array, trial: number): OtherKeys {
    const counts = { keys: 1, passed: 0, discarded: 0, excluded: row[EXCLUDED]!, passed_bytes: 0, discarded_bytes: 0 }
    for (let lost = 0; lost <= this.#trials; lost++) {
      const events = row[LOST + 2 * lost]!
      const bytes = row[LOST + 2 * lost + 1]!
      if (lost <= trial) {
        counts.passed += events
        counts.passed_bytes += bytes
      } else {
        counts.discarded += events
        counts.discarded_bytes += bytes
      }
    }
    return counts
  }

  #row(id: number): Float64Array {
    return this.#columns.subarray(id * this.#width, (id + 1) * this.#width)
  }

  /** The sum of each column over all keys. */
  #sums(): Float64Array {
    const sums = new Float64Array(this.#width)
    const columns = this.#columns
    for (let at = 0; at < columns.length; at += this.#width)
      for (let n = 0; n < this.#width; n++) sums[n]! += columns[at + n]!
    return sums
  }

  /** The counts of one trial, of all keys. */
  totals(trial: number): OtherKeys {
    return { ...this.#counts(this.#sums(), trial), keys: this.#ids.size }
  }

  get excluded(): { readonly events: number; readonly bytes: number } {
    const sums = this.#sums()
    return { events: sums[EXCLUDED]!, bytes: sums[EXCLUDED_BYTES]! }
  }

  /** The `most` keys with the most discarded events (then with the most events), and the exact sum of all others. */
  byKey(trial: number, most: number): Pick<TrialResult, 'losing_keys' | 'by_key' | 'others'> {
    const length = Math.floor(this.#columns.length / this.#width)
    const ids: number[] = []
    const discarded = new Float64Array(length)
    const events = new Float64Array(length)
    for (let id = 0; id < length; id++) {
      const counts = this.#counts(this.#row(id), trial)
      discarded[id] = counts.discarded
      events[id] = counts.passed + counts.discarded + counts.excluded
      if (events[id]! > 0 && id !== OTHERS) ids.push(id)
    }
    ids.sort((a, b) => discarded[b]! - discarded[a]! || events[b]! - events[a]! || a - b)
    const others = { ...this.totals(trial), keys: Math.max(ids.length - most, 0) }
    const by_key = ids.slice(0, most).map((id): KeyResult => {
      const row = this.#row(id)
      const { keys: _, ...counts } = this.#counts(row, trial)
      for (const name of Object.keys(counts) as (keyof typeof counts)[]) others[name] -= counts[name]
      return {
        key: this.#ids.text(id),
        ...counts,
        busiest: row[BUSIEST]!,
        busiest_at: row[BUSIEST]! > 0 ? row[BUSIEST_AT]! : null,
      }
    })
    const losing_keys = ids.filter(id => discarded[id]! > 0).length
    return { losing_keys, by_key, others: others.keys > 0 || events[OTHERS]! > 0 ? others : null }
  }

  overTime(trial: number): TimeResult {
    const sums = (from: number, to: number) => this.#slots.sums(this.#times, from, to)
    const discarded = sums(trial + 2, this.#trials + 2)
    const by_key = this.#heavy
      .most(trial, KEYS_OVER_TIME)
      .map(({ id, discarded }) => ({ key: id === OTHERS ? undefined : this.#ids.text(id), discarded }))
      .filter((row): row is { key: string | null; discarded: number[] } => row.key !== undefined)
    const others = discarded.map((sum, slot) => by_key.reduce((rest, row) => rest - row.discarded[slot]!, sum))
    return { passed: sums(1, trial + 2), discarded, excluded: sums(0, 1), by_key, others }
  }
}

/** Numbers that a tally of so many trials has for each key. */
export function tallyWidth(trials: number): number {
  return LOST + 2 * (trials + 1)
}
