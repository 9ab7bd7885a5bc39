import type { Exemplar, Kind } from '../../core/component.js'
import type { Amount, ComponentCounters, Histogram } from '../../flow/counters.js'

export interface SeriesRow {
  readonly labels: Record<string, string>
  readonly value: number
  readonly exemplar?: Exemplar
}

export interface SeriesSnapshot {
  readonly type: 'counter' | 'gauge'
  readonly help: string
  readonly rows: readonly SeriesRow[]
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
  readonly aside: ReadonlyMap<string, Amount>
  readonly discards: ReadonlyMap<string, Amount>
  readonly failures: ReadonlyMap<string, number>
  readonly series: ReadonlyMap<string, SeriesSnapshot>
  readonly histograms: ReadonlyMap<string, Histogram>
}

/** All of it at one moment, so that it adds up. */
export function snapshotOf(c: ComponentCounters): CounterSnapshot {
  const series = new Map<string, SeriesSnapshot>()
  for (const [name, all] of c.series) {
    if (!all[0]) continue
    const { type, help } = all[0]
    series.set(name, { type, help, rows: all.flatMap(one => [...one.read()]) })
  }
  return {
    id: c.id,
    kind: c.kind,
    type: c.type,
    received: c.received,
    passed: c.passed,
    consumed: c.consumedEvents,
    emitted: c.emittedEvents,
    inFlight: c.inFlight(),
    aside: c.aside,
    discards: c.discards,
    failures: c.failures,
    series,
    histograms: c.histograms,
  }
}
