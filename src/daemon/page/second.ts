import type { ComponentCounters } from '../../engine/flow/counters.js'
import type { Totals } from '../../engine/run/measure/totals.js'
import { booksOf } from '../status/status.js'
import { totalsOf } from './history.js'

/** What of a daemon changes all the time. */
interface Numbers {
  readonly at: number
  /** The components that run. */
  readonly counters: readonly ComponentCounters[]
  /** Undefined: no pipeline runs. */
  readonly totals: Totals | undefined
}

/** The message of a second: the same for all readers, so it is made once. */
export function secondOf({ at, counters, totals }: Numbers): string {
  const components = counters.map(one => {
    const busy = sumOf(one, 'sluice_component_utilization')
    return [one.id, [...totalsOf(one), busy === undefined ? null : Math.round(busy * 1000)]]
  })
  const destinations = counters.flatMap(one => (one.kind === 'destination' ? [[one.id, deliveryOf(one)]] : []))
  return JSON.stringify({
    at,
    books: totals && booksOf(totals),
    components: Object.fromEntries(components),
    destinations: Object.fromEntries(destinations),
  })
}

function deliveryOf(counters: ComponentCounters) {
  const oldest = sumOf(counters, 'sluice_delivery_oldest_event_age_seconds')
  return {
    in_flight: sumOf(counters, 'sluice_delivery_requests_in_flight') ?? 0,
    allowed: sumOf(counters, 'sluice_delivery_max_in_flight') ?? null,
    retries: sumOf(counters, 'sluice_delivery_retries_total') ?? 0,
    oldest_ms: oldest === undefined ? null : Math.round(oldest * 1000),
    buffered_bytes: sumOf(counters, 'sluice_buffer_bytes') ?? sumOf(counters, 'sluice_spool_bytes') ?? 0,
    dead_letters: sumOf(counters, 'sluice_dead_letters') ?? 0,
  }
}

/** The sum of the series of a metric; undefined if there are none that are numbers. */
function sumOf(counters: ComponentCounters, name: string): number | undefined {
  let sum: number | undefined
  for (const series of counters.series.get(name) ?? [])
    for (const { value } of series.read()) if (Number.isFinite(value)) sum = (sum ?? 0) + value
  return sum
}
