import type { Turn } from './budget.js'

export const ROW_BYTES = 8 + 3 * 2
/** The largest count that a row can hold. */
export const MOST_AT_ONCE = 0xffff
const FIRST_ROWS = 256
/** Number of rows that are read without a pause. Reading them takes less than a millisecond. */
const ROWS_AT_ONCE = 10_000

/**
 * Receives a row. `at`: in milliseconds by the clock of the decisions, exactly as they had it. `row`: the number of
 * earlier rows, including dropped rows.
 */
export type SeeRow = (at: number, key: number, offered: number, passed: number, row: number) => void

/** Rows of counts by time and key, stored in columns, oldest first. The columns grow up to a maximum number of rows. */
export class CountRing {
  #most: number
  #times: Float64Array
  #keys: Uint16Array
  #offered: Uint16Array
  #passed: Uint16Array
  #first = 0
  #length = 0
  /** Rows before this time were dropped to make room. */
  droppedUntil = Number.NEGATIVE_INFINITY
  /** Increases when rows change or move, but not when rows are added or the first rows are dropped. */
  version = 0
  dropped = 0

  constructor(most: number) {
    this.#most = most
    const rows = Math.min(most, FIRST_ROWS)
    this.#times = new Float64Array(rows)
    this.#keys = new Uint16Array(rows)
    this.#offered = new Uint16Array(rows)
    this.#passed = new Uint16Array(rows)
  }

  get length(): number {
    return this.#length
  }

  get used(): number {
    return this.#times.length * ROW_BYTES
  }

  get isFull(): boolean {
    return this.#length >= this.#most
  }

  set most(most: number) {
    this.#most = most
    this.dropFirst(this.#length - most)
    if (this.#times.length > most) this.#resize(most)
  }

  add(at: number, key: number, offered: number, passed: number): void {
    if (this.#length === this.#times.length) this.#resize(Math.min(this.#most, this.#length * 2))
    this.#set(at, key, offered, passed)
  }

  #row(n: number): number {
    const row = this.#first + n
    return row < this.#times.length ? row : row - this.#times.length
  }

  #resize(rows: number): void {
    const turned = <T extends Float64Array | Uint16Array>(column: T): T => {
      const other = new (column.constructor as new (length: number) => T)(rows)
      const toEnd = Math.min(this.#length, column.length - this.#first)
      other.set(column.subarray(this.#first, this.#first + toEnd))
      other.set(column.subarray(0, this.#length - toEnd), toEnd)
      return other
    }
    this.#times = turned(this.#times)
    this.#keys = turned(this.#keys)
    this.#offered = turned(this.#offered)
    this.#passed = turned(this.#passed)
    this.#first = 0
  }

  #at(n: number): number {
    return this.#times[this.#row(n)]!
  }

  dropFirst(rows: number): void {
    if (rows <= 0) return
    const count = Math.min(rows, this.#length)
    this.droppedUntil = this.#at(count - 1) + 1
    this.#drop(count)
  }

  dropBefore(at: number): void {
    let count = 0
    while (count < this.#length && this.#at(count) < at) count++
    this.#drop(count)
  }

  #drop(count: number): void {
    this.#first = count === this.#length ? 0 : this.#row(count)
    this.#length -= count
    this.dropped += count
  }

  /** Replaces each key number with its entry in `to`. */
  rename(to: Uint16Array): void {
    for (let n = 0; n < this.#length; n++) {
      const row = this.#row(n)
      this.#keys[row] = to[this.#keys[row]!]!
    }
    this.version++
  }

  /** Adds up the rows with the same key in each step of `stepMs`. `keys`: the largest key plus one. */
  merge(stepMs: number, keys: number): void {
    const offered = new Float64Array(keys)
    const passed = new Float64Array(keys)
    const touched: number[] = []
    const length = this.#length
    let at = Number.NaN
    const write = () => {
      for (const key of touched) {
        let [all, some] = [offered[key]!, passed[key]!]
        offered[key] = passed[key] = 0
        for (; all > 0; all -= MOST_AT_ONCE, some -= MOST_AT_ONCE)
          this.#set(at, key, Math.min(all, MOST_AT_ONCE), Math.max(0, Math.min(some, MOST_AT_ONCE)))
      }
      touched.length = 0
    }
    this.#length = 0
    for (let n = 0; n < length; n++) {
      const row = this.#row(n)
      const time = this.#times[row]!
      const start = time - (time % stepMs)
      // `write` overwrites no unread rows, because it never writes more rows than were read.
      if (start !== at) write()
      at = start
      const key = this.#keys[row]!
      if (offered[key] === 0) touched.push(key)
      offered[key]! += this.#offered[row]!
      passed[key]! += this.#passed[row]!
    }
    write()
    this.version++
  }

  #set(time: number, key: number, offered: number, passed: number): void {
    const row = this.#row(this.#length++)
    this.#times[row] = time
    this.#keys[row] = key
    this.#offered[row] = offered
    this.#passed[row] = passed
  }

  /** Calls `see` with each row, and `turn` between portions. Resolves with false if rows changed or moved meanwhile. */
  async readInTurns(see: SeeRow, turn: Turn): Promise<boolean> {
    const { version, dropped } = this
    const last = dropped + this.#length
    for (let next = dropped; next < last; ) {
      // Rows may have been dropped during a turn.
      const from = Math.max(next, this.dropped)
      next = Math.min(last, from + ROWS_AT_ONCE)
      this.read(see, from - this.dropped, next - this.dropped)
      if (next < last) await turn()
      if (this.version !== version) return false
    }
    return true
  }

  read(see: SeeRow, from = 0, to = this.#length): void {
    const [times, keys, offered, passed] = [this.#times, this.#keys, this.#offered, this.#passed]
    for (let n = from; n < to; n++) {
      const row = this.#row(n)
      see(times[row]!, keys[row]!, offered[row]!, passed[row]!, this.dropped + n)
    }
  }
}
