import type { Totals } from '../../core/status-document.js'
import { booksOf } from '../../daemon/status/status.js'
import type { ComponentCounters, Histogram } from '../../engine/flow/counters.js'
import { ATTEMPT_SECONDS } from '../../engine/flow/delivery/delivery.js'
import { utilizationOf } from '../../engine/flow/utilization.js'
import type { Clock } from '../../lib/time.js'
import { countsNow } from './history.js'

/** The latency covers the attempts in at least this many milliseconds. */
const WINDOW_MS = 10_000

const NOTHING = {
  in_flight: 0,
  allowed: null,
  retries: 0,
  oldest_ms: null,
  unanswered_ms: 0,
  buffered_bytes: 0,
  dead_letters: 0,
}

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
      const busy = utilizationOf(one)
      return [one.id, [...countsNow(one), busy === undefined ? null : Math.round(busy * 1000)]]
    })
    const destinations = counters.filter(({ kind }) => kind === 'destination')
    return {
      at: this.#clock.wall(),
      books: totals && booksOf(totals, counters),
      components: Object.fromEntries(components),
      destinations: Object.fromEntries(destinations.map(one => [one.id, this.#delivery(one)])),
    }
  }

  #delivery(counters: ComponentCounters) {
    const { buckets: _, file_rules, ...live } = counters.live
    const attempts = counters.histograms.get(ATTEMPT_SECONDS)
    return { ...NOTHING, ...live, ...(attempts && this.#latency(attempts)) }
  }

  /** Upper bounds of the latency of attempts in the last 10 to 20 seconds; undefined if there were no attempts. */
  #latency(histogram: Histogram): { p50_ms: number; p99_ms: number } | undefined {
    const { counts } = histogram
    const now = this.#clock.now()
    let marks = this.#marks.get(histogram)
    if (!marks) this.#marks.set(histogram, (marks = { before: [...counts], last: [...counts], at: now }))
    if (now - marks.at >= WINDOW_MS) Object.assign(marks, { before: marks.last, last: [...counts], at: now })
    const recent = counts.map((count, i) => count - marks.before[i]!)
    const all = recent.reduce((sum, count) => sum + count, 0)
    if (all === 0) return undefined
    const ms = (share: number) => Math.round(bound(histogram, recent, all * share) * 1000)
    return { p50_ms: ms(0.5), p99_ms: ms(0.99) }
  }
}

/** An upper bound of the value that `rank` observations do not exceed. */
function bound({ buckets, most }: Histogram, counts: readonly number[], rank: number): number {
  let below = 0
  for (const [i, bound] of buckets.entries()) {
    below += counts[i]!
    if (below >= rank) return Math.min(bound, most)
  }
  return most
}
