import type { Exemplar } from '../../core/component.js'
import { type Amount, type ComponentCounters, type ComponentSet, GIVEN_BACK, sum } from '../../flow/counters.js'
import type { CounterSnapshot, SeriesRow, SeriesSnapshot } from './counter-snapshot.js'

const NOTHING: Amount = { events: 0, bytes: 0 }

/**
 * Shows what components in the processes of accounts count, in the counters of the service: what the process that runs has
 * counted, on top of what those before it had. So a counter never goes back when a process ends and another starts.
 */
export class MirroredCounters {
  readonly #all: ComponentSet
  readonly #mirrors = new Map<string, Mirror>()

  constructor(all: ComponentSet) {
    this.#all = all
  }

  /** `refresh` is called before each scrape. */
  show(snapshots: readonly CounterSnapshot[], refresh: () => Promise<void>): void {
    for (const snapshot of snapshots) {
      const { id, kind, type } = snapshot
      const key = `${id} ${kind} ${type}`
      let mirror = this.#mirrors.get(key)
      if (!mirror) this.#mirrors.set(key, (mirror = new Mirror(this.#all.component(id, kind, type))))
      mirror.show(snapshot, refresh)
    }
  }

  /** The process that counted for pipelines of these ids has ended. */
  ended(pipelines: ReadonlySet<string>): void {
    for (const mirror of this.#mirrors.values()) if (pipelines.has(mirror.pipeline)) mirror.ended()
  }

  /** The pipeline is gone, and so is what it counted. */
  forget(pipeline: string): void {
    for (const [key, mirror] of this.#mirrors) if (mirror.pipeline === pipeline) this.#mirrors.delete(key)
    this.#all.forget(`${pipeline}/`)
  }
}

/** The counters of one component. */
class Mirror {
  readonly pipeline: string
  readonly #counters: ComponentCounters
  /** What ended processes counted. */
  #before: CounterSnapshot | undefined
  #shown: CounterSnapshot | undefined

  constructor(counters: ComponentCounters) {
    this.#counters = counters
    this.pipeline = counters.id.split('/', 1)[0]!
  }

  show(now: CounterSnapshot, refresh: () => Promise<void>): void {
    const shown = this.#before ? added(this.#before, now) : now
    this.#shown = shown
    this.#write(shown)
    this.#counters.beforeScrape = refresh
  }

  /** What was in the component went back to who sent it, or is in a disk buffer and comes again. */
  ended(): void {
    const shown = this.#shown
    if (!shown) return
    const { inFlight } = shown
    const discards = new Map(shown.discards)
    if (inFlight.events !== 0 || inFlight.bytes !== 0) discards.set(GIVEN_BACK, sum(inFlight, discards.get(GIVEN_BACK)))
    const counted = [...shown.series].filter(([, { type }]) => type === 'counter')
    this.#before = { ...shown, discards, inFlight: NOTHING, series: new Map(counted) }
    this.#shown = undefined
    this.#counters.series.clear()
    this.#write(this.#before)
    this.#counters.beforeScrape = undefined
  }

  #write(shown: CounterSnapshot): void {
    const counters = this.#counters
    Object.assign(counters.received, shown.received)
    Object.assign(counters.passed, shown.passed)
    Object.assign(counters.consumedEvents, shown.consumed)
    Object.assign(counters.emittedEvents, shown.emitted)
    counters.holds = () => shown.inFlight
    for (const [output, amount] of shown.aside) counters.aside.set(output, amount)
    for (const [reason, amount] of shown.discards) counters.discards.set(reason, amount)
    for (const [kind, count] of shown.failures) counters.failures.set(kind, count)
    for (const name of counters.series.keys()) if (!shown.series.has(name)) counters.series.delete(name)
    for (const [name, { type, help, rows }] of shown.series)
      counters.series.set(name, [{ type, help, read: () => rows }])
    for (const [name, histogram] of shown.histograms) counters.histograms.set(name, histogram)
  }
}

/** Counters of both together, gauges of the later one. */
function added(before: CounterSnapshot, now: CounterSnapshot): CounterSnapshot {
  return {
    ...now,
    received: sum(before.received, now.received),
    passed: sum(before.passed, now.passed),
    consumed: sum(before.consumed, now.consumed),
    emitted: sum(before.emitted, now.emitted),
    aside: merged(before.aside, now.aside, sum),
    discards: merged(before.discards, now.discards, sum),
    failures: merged(before.failures, now.failures, (a, b = 0) => a + b),
    series: merged(before.series, now.series, addedSeries),
    histograms: merged(before.histograms, now.histograms, (a, b) =>
      b?.buckets.length === a.buckets.length
        ? {
            ...b,
            counts: b.counts.map((count, i) => count + a.counts[i]!),
            exemplars: b.exemplars.map((exemplar, i) => exemplar ?? a.exemplars[i]),
            sum: a.sum + b.sum,
          }
        : (b ?? a),
    ),
  }
}

function merged<V>(
  before: ReadonlyMap<string, V>,
  now: ReadonlyMap<string, V>,
  both: (a: V, b?: V) => V,
): Map<string, V> {
  const all = new Map(now)
  for (const [name, value] of before) all.set(name, both(value, now.get(name)))
  return all
}

function addedSeries(before: SeriesSnapshot, now?: SeriesSnapshot): SeriesSnapshot {
  if (now?.type === 'gauge') return now
  const rows = new Map<string, { labels: Record<string, string>; value: number; exemplar?: Exemplar }>()
  for (const row of [...before.rows, ...(now?.rows ?? [])]) {
    const key = JSON.stringify(row.labels)
    const known: SeriesRow | undefined = rows.get(key)
    rows.set(key, known ? { ...known, ...row, value: known.value + row.value } : row)
  }
  return { ...before, rows: [...rows.values()] }
}
