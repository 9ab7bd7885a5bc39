import { booksOf } from '../../daemon/status/status.js'
import type { ComponentCounters, Histogram } from '../../engine/flow/counters.js'
import type { Totals } from '../../engine/run/measure/totals.js'
import type { Clock } from '../../lib/time.js'
import { countsNow } from './history.js'

/** The latency covers the attempts in at least this many milliseconds. */
const WINDOW_MS = 10_000

/** The counts of a histogram at two times. `before` is at most 20 seconds old, and `last` is at most 10 seconds old. */
interface Marks {
  before: readonly number[]
  last: readonly number[]
  at: number
}

/** Events received, sent and discarded since the daemon started; events in flight; utilization in permille. */
type Counts = readonly [...ReturnType<typeof countsNow>, number | null]

/** Builds the message of each second. */
export class Seconds {
  readonly #clock: Clock
  readonly #marks = new WeakMap<Histogram, Marks>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** `counters`: one for each running component. `totals`: undefined while no pipeline runs. */
  next(counters: readonly ComponentCounters[], totals: Totals | undefined) {
    const components = counters.map((one): [string, Counts] => {
      const busy = sumOf(one, 'sluice_component_utilization')
      return [one.id, [...countsNow(one), busy === undefined ? null : Math.round(busy * 1000)]]
    })
    const destinations = counters.filter(({ kind }) => kind === 'destination')
    return {
      at: this.#clock.wall(),
      books: totals && booksOf(totals),
      components: Object.fromEntries(components),
      destinations: Object.fromEntries(destinations.map(one => [one.id, this.#delivery(one)])),
    }
  }

  #delivery(counters: ComponentCounters) {
    const oldest = sumOf(counters, 'sluice_delivery_oldest_event_age_seconds')
    const attempts = counters.histograms.get('sluice_delivery_attempt_seconds')
    return {
      in_flight: sumOf(counters, 'sluice_delivery_requests_in_flight') ?? 0,
      allowed: sumOf(counters, 'sluice_delivery_max_in_flight') ?? null,
      retries: sumOf(counters, 'sluice_delivery_retries_total') ?? 0,
      oldest_ms: oldest === undefined ? null : Math.round(oldest * 1000),
      buffered_bytes: sumOf(counters, 'sluice_buffer_bytes') ?? sumOf(counters, 'sluice_spool_bytes') ?? 0,
      dead_letters: sumOf(counters, 'sluice_dead_letters') ?? 0,
      ...(attempts && this.#latency(attempts)),
    }
  }

  /** The latency of attempts in the last 10 to 20 seconds; undefined if there were no attempts. */
  #latency(histogram: Histogram): { p50_ms: number; p99_ms: number } | undefined {
    const { buckets, counts } = histogram
    const now = this.#clock.now()
    let marks = this.#marks.get(histogram)
    if (!marks) this.#marks.set(histogram, (marks = { before: [...counts], last: [...counts], at: now }))
    if (now - marks.at >= WINDOW_MS) Object.assign(marks, { before: marks.last, last: [...counts], at: now })
    const recent = counts.map((count, i) => count - marks.before[i]!)
    const all = recent.reduce((sum, count) => sum + count, 0)
    if (all === 0) return undefined
    const ms = (share: number) => Math.round(quantile(buckets, recent, all * share) * 1000)
    return { p50_ms: ms(0.5), p99_ms: ms(0.99) }
  }
}

/** Estimates the value that `rank` observations do not exceed, as if observations were spread evenly in a bucket. */
function quantile(buckets: readonly number[], counts: readonly number[], rank: number): number {
  let below = 0
  for (const [i, bound] of buckets.entries()) {
    const from = buckets[i - 1] ?? 0
    if (below + counts[i]! >= rank) return from + ((bound - from) * (rank - below)) / counts[i]!
    below += counts[i]!
  }
  return buckets.at(-1)!
}

/** The sum of a metric's series; undefined if no series has a finite value. */
export function sumOf(counters: ComponentCounters, name: string): number | undefined {
  let sum: number | undefined
  for (const series of counters.series.get(name) ?? [])
    for (const { value } of series.read()) if (Number.isFinite(value)) sum = (sum ?? 0) + value
  return sum
}
