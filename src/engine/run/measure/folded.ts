import { type Amount, type ComponentCounters, sum } from '../../flow/counters.js'
import type { CounterSnapshot, SeriesRow } from './counter-snapshot.js'

/** Stands for the ids of components that have no series of their own. In other labels, it stands for several values. */
export const OTHER = '__other__'

/** A line of a scrape with more characters than this counts as several lines. */
const LINE = 500
/** Number of lines that almost every component has. */
const LEAST_LINES = 11

/** The approximate number of lines of a component in a scrape. */
export function scrapeLines({ discards, aside, failures, series, histograms }: ComponentCounters): number {
  let lines = LEAST_LINES
  const add = (...texts: readonly string[]) => {
    lines += 1 + Math.floor(texts.reduce((length, text) => length + text.length, 0) / LINE)
  }
  for (const names of [discards, discards, aside, aside, failures]) for (const name of names.keys()) add(name)
  for (const [name, all] of series) {
    add(name, all[0]?.help ?? '')
    for (const { read } of all) for (const { labels } of read()) add(name, ...Object.values(labels))
  }
  for (const [name, { help, counts }] of histograms) {
    add(name, help)
    lines += counts.length + 2
  }
  return lines
}

/** Reduces a snapshot to its sums and to the counters that `hasRoom` accepts. Removes labels by key. */
export function folded(snapshot: CounterSnapshot, hasRoom: (series: string) => boolean): CounterSnapshot {
  const { kind, passed, aside, discards, failures, series } = snapshot
  return {
    ...snapshot,
    id: `${OTHER}/${kind}`,
    type: OTHER,
    passed: amountOf(aside, passed),
    aside: [],
    discards: [[OTHER, amountOf(discards)]],
    failures: [[OTHER, failures.reduce((sum, [, count]) => sum + count, 0)]],
    toRead: amountOf([]),
    series: series.flatMap(([name, { type, help, rows }]) => {
      const kept = type === 'counter' ? summed(rows, labels => hasRoom(`${name} ${labels}`)) : []
      return kept.length === 0 ? [] : [[name, { type, help, rows: kept }] as const]
    }),
    histograms: [],
  }
}

function amountOf(amounts: CounterSnapshot['aside'], first?: Amount): Amount {
  return amounts.reduce((all, [, amount]) => sum(all, amount), sum(first ?? { events: 0, bytes: 0 }))
}

/** Adds up rows with equal labels. If a row has `rest` labels, uses these instead of its own labels. */
function summed(rows: readonly SeriesRow[], hasRoom: (labels: string) => boolean): SeriesRow[] {
  const sums = new Map<string, { labels: Record<string, string>; value: number }>()
  for (const { labels, value, rest = labels } of rows) {
    const key = JSON.stringify(rest)
    const known = sums.get(key)
    if (known) known.value += value
    else if (hasRoom(key)) sums.set(key, { labels: rest, value })
  }
  return [...sums.values()]
}
