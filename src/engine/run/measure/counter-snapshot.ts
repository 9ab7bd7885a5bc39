import type { Exemplar, Kind } from '../../../core/component.js'
import type { Amount, ComponentCounters, CounterSeries, Histogram } from '../../flow/counters.js'

export interface SeriesRow {
  readonly labels: Record<string, string>
  readonly value: number
  readonly exemplar?: Exemplar
  /** If the counter can be removed: labels of the rest counter to which the removed value is added. */
  readonly rest?: Record<string, string>
}

export interface SeriesSnapshot {
  readonly type: 'counter' | 'gauge'
  readonly help: string
  readonly rows: readonly SeriesRow[]
}

export type HistogramSnapshot = Pick<Histogram, 'help' | 'buckets' | 'sum'> & {
  readonly counts: readonly number[]
  readonly exemplars: readonly (Histogram['exemplars'][number] | null)[]
}

/** The counts of one component at one moment, as plain JSON. */
export interface CounterSnapshot {
  readonly id: string
  readonly kind: Kind
  readonly type: string
  readonly received: Amount
  readonly passed: Amount
  readonly consumed: Amount
  readonly emitted: Amount
  readonly inFlight: Amount
  readonly toRead: Amount
  readonly receivedAgain: number
  readonly returned: number
  readonly repeated: boolean
  readonly aside: Named<Amount>
  readonly discards: Named<Amount>
  readonly failures: Named<number>
  readonly series: Named<SeriesSnapshot>
  readonly histograms: Named<HistogramSnapshot>
}

type Named<T> = readonly (readonly [name: string, value: T])[]

/** Copies all counts at the same moment, because counts from different moments do not add up. */
export function snapshotOf(c: ComponentCounters): CounterSnapshot {
  const series: [string, SeriesSnapshot][] = []
  for (const [name, all] of c.series) {
    if (!all[0]) continue
    const { type, help } = all[0]
    series.push([name, { type, help, rows: all.flatMap(rowsOf) }])
  }
  const histograms = [...c.histograms].map(
    ([name, one]) =>
      [name, { ...one, sum: finite(one.sum), counts: [...one.counts], exemplars: [...one.exemplars] }] as const,
  )
  return {
    id: c.id,
    kind: c.kind,
    type: c.type,
    received: { ...c.received },
    passed: { ...c.passed },
    consumed: { ...c.consumedEvents },
    emitted: { ...c.emittedEvents },
    inFlight: c.inFlight(),
    toRead: { ...c.toRead },
    receivedAgain: c.receivedAgain,
    returned: c.returned,
    repeated: c.repeated,
    aside: copied(c.aside),
    discards: copied(c.discards),
    failures: [...c.failures],
    series,
    histograms,
  }
}

function rowsOf({ rest, read }: CounterSeries): SeriesRow[] {
  return [...read()].map(row => ({ ...row, value: finite(row.value), ...(rest && { rest }) }))
}

function copied(amounts: ReadonlyMap<string, Amount>): [string, Amount][] {
  return [...amounts].map(([name, amount]) => [name, { ...amount }])
}

/** JSON has no infinite numbers and no NaN. */
function finite(value: number): number {
  return Number.isFinite(value) ? value : value > 0 ? Number.MAX_VALUE : 0
}
