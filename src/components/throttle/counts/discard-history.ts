import { DEFAULT_NAME } from '../buckets/bucket-name.js'
import type { LimitRefusal } from '../decider.js'

const MINUTE_MS = 60_000
const MINUTES = 60
/** If there are more than twice as many buckets, this many are kept. */
const KEPT = 256

interface Row {
  /** Number of discarded events in each minute, as a ring. */
  readonly minutes: Float64Array
  newest: number
  refusal: LimitRefusal | undefined
}

/** Counts discarded events of the last hour, for the buckets with the most discarded events. Memory is bounded. */
export class DiscardHistory {
  readonly #rows = new Map<string, Row>()
  readonly #from: number
  #inexactAt = Number.NEGATIVE_INFINITY

  constructor(now: number) {
    this.#from = now
  }

  /** `bucket`: the name of the bucket; null: the default bucket. `now`: in milliseconds, as in all calls. */
  add(bucket: string | null, events: number, now: number): void {
    const row = this.#row(bucket, now)
    advance(row, now)
    row.minutes[row.newest % MINUTES]! += events
  }

  note(bucket: string | null, refusal: LimitRefusal | undefined, now: number): void {
    this.#row(bucket, now).refusal = refusal
  }

  refusal(bucket: string | null): LimitRefusal | undefined {
    return this.#rows.get(bucket ?? DEFAULT_NAME)?.refusal
  }

  #row(bucket: string | null, now: number): Row {
    const name = bucket ?? DEFAULT_NAME
    let row = this.#rows.get(name)
    if (!row) {
      if (this.#rows.size === KEPT * 2) this.#forget(now)
      row = { minutes: new Float64Array(MINUTES), newest: Math.floor(now / MINUTE_MS), refusal: undefined }
      this.#rows.set(name, row)
    }
    return row
  }

  /** Marks the counts at `now` as estimates from a sample. */
  sampled(now: number): void {
    this.#inexactAt = now
  }

  /** Discarded events in this minute and the previous 59 minutes. */
  lastHour(bucket: string | null, now: number): number {
    const row = this.#rows.get(bucket ?? DEFAULT_NAME)
    return row ? sumOf(row, now) : 0
  }

  /** When the count of `lastHour` began. */
  since(now: number): number {
    return Math.max(this.#from, (Math.floor(now / MINUTE_MS) - MINUTES + 1) * MINUTE_MS)
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
