import { type Amount, add, type ComponentCounters, type CounterSet, GIVEN_BACK } from '../../flow/counters.js'
import type { CounterSnapshot, SeriesSnapshot } from './counter-snapshot.js'

const NOTHING: Amount = { events: 0, bytes: 0 }

/**
 * Shows what components in another process count: each snapshot adds what was counted
 * since the one before it. So a counter never goes back when the counting process ends and another one starts, or when
 * a component moves.
 */
export class MirroredCounters {
  readonly #all: CounterSet
  readonly #mirrors = new Map<string, Mirror>()

  constructor(all: CounterSet) {
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

  /** What counted for these components has ended; the next snapshot of each counts from 0. */
  ended(has: (id: string) => boolean = () => true): void {
    for (const mirror of this.#mirrors.values()) if (has(mirror.id)) mirror.ended()
  }

  /** Forgets these components. Their counters stay. */
  forget(has: (id: string) => boolean): void {
    for (const [key, mirror] of this.#mirrors) if (has(mirror.id)) this.#mirrors.delete(key)
  }
}

/** The counters of one component. */
class Mirror {
  readonly #counters: ComponentCounters
  #last: CounterSnapshot | undefined

  constructor(counters: ComponentCounters) {
    this.#counters = counters
  }

  get id(): string {
    return this.#counters.id
  }

  show(now: CounterSnapshot, refresh: () => Promise<void>): void {
    const counters = this.#counters
    const last = this.#last
    this.#last = now
    // What it held while it ran here does not arrive here again.
    if (!last) counters.abandon()
    grow(counters.received, now.received, last?.received)
    grow(counters.passed, now.passed, last?.passed)
    grow(counters.consumedEvents, now.consumed, last?.consumed)
    grow(counters.emittedEvents, now.emitted, last?.emitted)
    const aside = new Map(last?.aside)
    for (const [name, amount] of now.aside) counters.sent(...grownBy(amount, aside.get(name)), name)
    const discards = new Map(last?.discards)
    for (const [reason, amount] of now.discards) counters.discarded(reason, ...grownBy(amount, discards.get(reason)))
    const failures = new Map(last?.failures)
    for (const [kind, count] of now.failures)
      counters.failures.set(kind, (counters.failures.get(kind) ?? 0) + count - (failures.get(kind) ?? 0))
    counters.holds = () => now.inFlight
    Object.assign(counters.toRead, now.toRead)
    counters.receivedAgain += now.receivedAgain - (last?.receivedAgain ?? 0)
    counters.returned += now.returned - (last?.returned ?? 0)
    counters.repeated ||= now.repeated
    this.#dropGauges(last, now)
    const before = new Map(last?.series)
    for (const [name, series] of now.series) this.#showSeries(name, series, before.get(name))
    this.#showHistograms(now, last)
    counters.beforeScrape = refresh
  }

  #showSeries(name: string, { type, help, rows }: SeriesSnapshot, last: SeriesSnapshot | undefined): void {
    if (type === 'gauge') {
      this.#counters.series.set(name, [{ type, help, read: () => rows }])
      return
    }
    const before = new Map(last?.rows.map(({ labels, value }) => [JSON.stringify(labels), value]))
    const passing = rows.filter(({ rest }) => rest)
    if (passing.length > 0) this.#counters.counters(name, help, passing[0]!.rest!, () => passing)
    for (const { labels, value, exemplar, rest } of rows) {
      if (rest) continue
      const counter = this.#counters.counter(name, help, labels)
      counter.value += value - (before.get(JSON.stringify(labels)) ?? 0)
      if (exemplar) counter.exemplar = exemplar
    }
  }

  #showHistograms({ histograms }: CounterSnapshot, last: CounterSnapshot | undefined): void {
    const known = new Map(last?.histograms)
    for (const [name, now] of histograms) {
      const before = known.get(name)
      this.#counters.histogram(name, now.help, now.buckets)
      const shown = this.#counters.histograms.get(name)!
      shown.sum += now.sum - (before?.sum ?? 0)
      for (const [i, count] of now.counts.entries()) {
        shown.counts[i]! += count - (before?.counts[i] ?? 0)
        shown.exemplars[i] = now.exemplars[i] ?? shown.exemplars[i]
      }
    }
  }

  #dropGauges(last: CounterSnapshot | undefined, now?: CounterSnapshot): void {
    const kept = new Set(now?.series.map(([name]) => name))
    for (const [name, { type }] of last?.series ?? [])
      if (type === 'gauge' && !kept.has(name)) this.#counters.series.delete(name)
  }

  /** Counters that may disappear are gone. */
  #endPassing(name: string, { help, rows }: SeriesSnapshot): void {
    for (const { rest, value } of rows) if (rest) this.#counters.counter(name, help, rest).value += value
    const { rest } = rows.find(row => row.rest) ?? {}
    if (rest) this.#counters.counters(name, help, rest, () => [])
  }

  /** What was in the component went back to where it came from, and comes again as new. */
  ended(): void {
    const last = this.#last
    if (!last) return
    const { inFlight } = last
    const counters = this.#counters
    counters.holds = () => NOTHING
    if (inFlight.events !== 0 || inFlight.bytes !== 0) counters.discarded(GIVEN_BACK, inFlight.events, inFlight.bytes)
    Object.assign(counters.toRead, NOTHING)
    for (const [name, series] of last.series) this.#endPassing(name, series)
    this.#dropGauges(last)
    counters.beforeScrape = undefined
    this.#last = undefined
  }
}

function grownBy(now: Amount, last: Amount = NOTHING): [events: number, bytes: number] {
  return [now.events - last.events, now.bytes - last.bytes]
}

function grow(amount: Amount, now: Amount, last: Amount | undefined): void {
  add(amount, ...grownBy(now, last))
}
