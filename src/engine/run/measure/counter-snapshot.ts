import type { Exemplar, Kind } from '../../../core/component.js'
import type { Amount, ComponentCounters, Histogram, Series } from '../../flow/counters.js'

export interface SeriesRow {
  readonly labels: Record<string, string>
  readonly value: number
  readonly exemplar?: Exemplar
  /** Of a counter that may disappear: the labels of the one that counts what is gone. */
  readonly rest?: Record<string, string>
}

export interface SeriesSnapshot {
  readonly type: 'counter' | 'gauge'
  readonly help: string
  readonly rows: readonly SeriesRow[]
}

export type HistogramSnapshot = Pick<Histogram, 'help' | 'buckets' | 'sum'> & {
  readonly counts: readonly number[]
  readonly exemplars: Readonly<Histogram['exemplars']>
}

/** What one component counted up to a moment, as plain data. */
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
  readonly aside: ReadonlyMap<string, Amount>
  readonly discards: ReadonlyMap<string, Amount>
  readonly failures: ReadonlyMap<string, number>
  readonly series: ReadonlyMap<string, SeriesSnapshot>
  readonly histograms: ReadonlyMap<string, HistogramSnapshot>
}

/** All of it at one moment, so that it adds up. Later counts do not change it. */
export function snapshotOf(c: ComponentCounters): CounterSnapshot {
  const series = new Map<string, SeriesSnapshot>()
  for (const [name, all] of c.series) {
    if (!all[0]) continue
    const { type, help } = all[0]
    series.set(name, { type, help, rows: all.flatMap(rowsOf) })
  }
  const histograms = [...c.histograms].map(
    ([name, one]) => [name, { ...one, counts: [...one.counts], exemplars: [...one.exemplars] }] as const,
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
    failures: new Map(c.failures),
    series,
    histograms: new Map(histograms),
  }
}

function rowsOf({ rest, read }: Series): SeriesRow[] {
  return [...read()].map(row => ({ ...row, ...(rest && { rest }) }))
}

function copied(amounts: ReadonlyMap<string, Amount>): Map<string, Amount> {
  return new Map([...amounts].map(([name, amount]) => [name, { ...amount }]))
}
