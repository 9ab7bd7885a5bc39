import { DEFAULT } from './bucket-name.js'

const MINUTE_MS = 60_000
const MINUTES = 60
/** Buckets that are kept if there are more. */
const KEPT = 256

interface Row {
  /** Discarded events by minute: a ring. */
  readonly minutes: Float64Array
  /** The newest minute in it. */
  newest: number
}

/** How many events of the buckets that are discarded most often were discarded in the last hour. Memory is bounded. */
export class DiscardHistory {
  readonly #rows = new Map<string, Row>()
  #inexactAt = Number.NEGATIVE_INFINITY

  /** `bucket`: its name; null: the default one. `now`: milliseconds, as in all calls. */
  add(bucket: string | null, events: number, now: number): void {
    const name = bucket ?? DEFAULT
    let row = this.#rows.get(name)
    if (!row) {
      if (this.#rows.size === KEPT * 2) this.#forget(now)
      row = { minutes: new Float64Array(MINUTES), newest: Math.floor(now / MINUTE_MS) }
      this.#rows.set(name, row)
    }
    advance(row, now)
    row.minutes[row.newest % MINUTES]! += events
  }

  /** Reports that only a sample of the events was counted, in proportion. */
  sampled(now: number): void {
    this.#inexactAt = now
  }

  /** Events in this minute and the 59 before it. */
  lastHour(bucket: string | null, now: number): number {
    const row = this.#rows.get(bucket ?? DEFAULT)
    return row ? sumOf(row, now) : 0
  }

  /** Whether every event of the last hour was counted. */
  isExact(now: number): boolean {
    return now - this.#inexactAt > MINUTES * MINUTE_MS
  }

  #forget(now: number): void {
    const sums = [...this.#rows].map(([name, row]) => ({ name, sum: sumOf(row, now) }))
    for (const { name, sum } of sums.sort((a, b) => b.sum - a.sum).slice(KEPT)) {
      this.#rows.delete(name)
      if (sum > 0) this.#inexactAt = now
    }
  }
}

function advance(row: Row, now: number): void {
  const minute = Math.floor(now / MINUTE_MS)
  const passed = Math.min(MINUTES, minute - row.newest)
  for (let n = 1; n <= passed; n++) row.minutes[(row.newest + n) % MINUTES] = 0
  row.newest = Math.max(row.newest, minute)
}

function sumOf(row: Row, now: number): number {
  advance(row, now)
  return row.minutes.reduce((sum, events) => sum + events, 0)
}
