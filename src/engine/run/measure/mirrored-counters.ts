import { type Amount, add, type ComponentCounters, type ComponentSet, GIVEN_BACK, sum } from '../../flow/counters.js'
import { type CounterSnapshot, type SeriesSnapshot, snapshotOf } from './counter-snapshot.js'
import { folded, OTHER, scrapeLines } from './folded.js'

const NOTHING: Amount = { events: 0, bytes: 0 }

export interface SeriesBounds {
  /** Maximum number of lines in a scrape for one group of components. `all`: the maximum for all groups together. */
  readonly group: number
  readonly all: number
  /** Called when components are folded because their group, or all groups together, exceed the maximum. */
  readonly full?: (group: string) => void
}

/** Maximum number of series for the counters of folded components. */
const MOST_OTHERS = 1000
/** Maximum number of components in a group, even if the group's process reports more. */
const MOST_COMPONENTS = 20_000

const UNBOUNDED: SeriesBounds = { group: Number.POSITIVE_INFINITY, all: Number.POSITIVE_INFINITY }

/**
 * Shows the counts of components in other processes. Each snapshot adds the growth since the previous one. A counter
 * thus never decreases, even if another process continues counting or a component moves.
 *
 * The number of series is limited, whatever the processes report. A component beyond the limit of its group, or of all
 * groups, is folded: its past and future counts are added to the component `__other__/KIND`. Sums stay exact, but
 * gauges and histograms of folded components are not shown. Components that have ended are folded first.
 */
export class MirroredCounters {
  readonly #all: ComponentSet
  readonly #bounds: SeriesBounds
  readonly #mirrors = new Map<string, Mirror>()
  readonly #groups = new Map<string, { lines: number; components: number }>()
  #lines = 0
  readonly #others = new Set<string>()

  constructor(all: ComponentSet, bounds = UNBOUNDED) {
    this.#all = all
    this.#bounds = bounds
  }

  get folded(): number {
    return [...this.#mirrors.values()].filter(({ isFolded }) => isFolded).length
  }

  /** Calls `refresh` before each scrape. Throws if the group has too many components. */
  show(snapshots: readonly CounterSnapshot[], refresh: () => Promise<void>, group = ''): void {
    for (const snapshot of snapshots) {
      const { id, kind, type } = snapshot
      const key = `${id} ${kind} ${type}`
      const mirror =
        this.#mirrors.get(key) ?? this.#add(key, new Mirror(id, group, this.#all.component(id, kind, type)))
      mirror.show(mirror.isFolded ? this.#folded(snapshot) : snapshot, refresh)
      if (!mirror.isFolded) this.#bound(key, mirror)
    }
  }

  #add(key: string, mirror: Mirror): Mirror {
    const group = this.#groups.get(mirror.group) ?? { lines: 0, components: 0 }
    if (group.components >= MOST_COMPONENTS)
      throw new RangeError(`its process reported more than ${MOST_COMPONENTS} components`)
    group.components++
    this.#groups.set(mirror.group, group)
    this.#mirrors.set(key, mirror)
    return mirror
  }

  #remove(key: string, mirror: Mirror): void {
    this.#count(mirror, 0)
    this.#mirrors.delete(key)
    const group = this.#groups.get(mirror.group)!
    if (--group.components === 0) this.#groups.delete(mirror.group)
  }

  #count(mirror: Mirror, lines: number): void {
    const more = lines - mirror.lines
    mirror.lines = lines
    this.#groups.get(mirror.group)!.lines += more
    this.#lines += more
  }

  #bound(key: string, mirror: Mirror): void {
    const { group, all, full } = this.#bounds
    this.#count(mirror, scrapeLines(mirror.counters))
    const lines = this.#groups.get(mirror.group)!
    const isFull = () => lines.lines > group
    if (!isFull() && this.#lines <= all) return
    full?.(mirror.group)
    for (const [key, one] of this.#mirrors) {
      if (!isFull() && this.#lines <= all) return
      if (one.hasEnded && !one.isFolded && (one.group === mirror.group || this.#lines > all)) this.#fold(key, one)
    }
    if (isFull() || this.#lines > all) this.#fold(key, mirror)
  }

  /** Adds a component's counts to the component `__other__/KIND`. */
  #fold(key: string, mirror: Mirror): void {
    const own = mirror.counters
    const { kind } = own
    const others = this.#all.component(`${OTHER}/${kind}`, kind, OTHER)
    others.holds = () => this.#heldBy(others)
    new Mirror(own.id, '', others, true).show(this.#folded(snapshotOf(own)))
    this.#all.remove(own)
    this.#count(mirror, 0)
    mirror.fold(others, last => this.#folded(last))
    if (mirror.hasEnded) this.#remove(key, mirror)
  }

  #folded(snapshot: CounterSnapshot): CounterSnapshot {
    return folded(snapshot, series => {
      if (!this.#others.has(series) && this.#others.size < MOST_OTHERS) this.#others.add(series)
      return this.#others.has(series)
    })
  }

  #heldBy(others: ComponentCounters): Amount {
    const all = [...this.#mirrors.values()].filter(({ counters }) => counters === others)
    return all.reduce((held, { inFlight }) => sum(held, inFlight), NOTHING)
  }

  /** Notes that the processes of the matching components have ended. Their next snapshots count from 0. */
  ended(has: (id: string) => boolean = () => true): void {
    for (const [key, mirror] of this.#mirrors) {
      if (!has(mirror.id)) continue
      mirror.ended()
      if (mirror.isFolded) this.#remove(key, mirror)
      else this.#count(mirror, scrapeLines(mirror.counters))
    }
  }

  /** Removes the mirrors of the matching components. The counters of these components stay. */
  forget(has: (id: string) => boolean): void {
    for (const [key, mirror] of this.#mirrors) {
      if (!has(mirror.id)) continue
      if (mirror.isFolded) mirror.ended()
      this.#remove(key, mirror)
    }
  }
}

/** The counters of one component; for a folded component, its share in the counters of `__other__/KIND`. */
class Mirror {
  readonly id: string
  readonly group: string
  counters: ComponentCounters
  isFolded: boolean
  lines = 0
  #last: CounterSnapshot | undefined

  constructor(id: string, group: string, counters: ComponentCounters, isFolded = false) {
    this.id = id
    this.group = group
    this.counters = counters
    this.isFolded = isFolded
  }

  get hasEnded(): boolean {
    return this.#last === undefined
  }

  get inFlight(): Amount {
    return this.#last?.inFlight ?? NOTHING
  }

  /** From now on, adds counts to the counters `others`. */
  fold(others: ComponentCounters, folded: (last: CounterSnapshot) => CounterSnapshot): void {
    this.counters = others
    this.isFolded = true
    this.#last &&= folded(this.#last)
  }

  show(now: CounterSnapshot, refresh?: () => Promise<void>): void {
    const { counters } = this
    const last = this.#last
    this.#last = now
    // If the component ran in this process before, the events that it gave back will not arrive here again.
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
    counters.receivedAgain += now.receivedAgain - (last?.receivedAgain ?? 0)
    counters.returned += now.returned - (last?.returned ?? 0)
    counters.repeated ||= now.repeated
    this.#dropGauges(last, now)
    const before = new Map(last?.series)
    for (const [name, series] of now.series) this.#showSeries(name, series, before.get(name))
    this.#showHistograms(now, last)
    if (this.isFolded) return
    counters.holds = () => now.inFlight
    Object.assign(counters.toRead, now.toRead)
    counters.beforeScrape = refresh
  }

  #showSeries(name: string, { type, help, rows }: SeriesSnapshot, last: SeriesSnapshot | undefined): void {
    if (type === 'gauge') {
      this.counters.series.set(name, [{ type, help, read: () => rows }])
      return
    }
    const before = new Map(last?.rows.map(({ labels, value }) => [JSON.stringify(labels), value]))
    const passing = rows.filter(({ rest }) => rest)
    if (passing.length > 0) this.counters.counters(name, help, passing[0]!.rest!, () => passing)
    for (const { labels, value, exemplar, rest } of rows) {
      if (rest) continue
      const counter = this.counters.counter(name, help, labels)
      counter.value += value - (before.get(JSON.stringify(labels)) ?? 0)
      if (exemplar) counter.exemplar = exemplar
    }
  }

  #showHistograms({ histograms }: CounterSnapshot, last: CounterSnapshot | undefined): void {
    const known = new Map(last?.histograms)
    for (const [name, now] of histograms) {
      const before = known.get(name)
      this.counters.histogram(name, now.help, now.buckets)
      const shown = this.counters.histograms.get(name)!
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
      if (type === 'gauge' && !kept.has(name)) this.counters.series.delete(name)
  }

  /** Adds the values of removable counters to their rest counters. */
  #endPassing(name: string, { help, rows }: SeriesSnapshot): void {
    for (const { rest, value } of rows) if (rest) this.counters.counter(name, help, rest).value += value
    const { rest } = rows.find(row => row.rest) ?? {}
    if (rest) this.counters.counters(name, help, rest, () => [])
  }

  /**
   * Notes that the component's process ended. The events of the component went back to their sources. When they arrive
   * again, they count as new events.
   */
  ended(): void {
    const last = this.#last
    if (!last) return
    const { inFlight } = last
    const { counters } = this
    if (inFlight.events !== 0 || inFlight.bytes !== 0) counters.discarded(GIVEN_BACK, inFlight.events, inFlight.bytes)
    for (const [name, series] of last.series) this.#endPassing(name, series)
    this.#dropGauges(last)
    this.#last = undefined
    if (this.isFolded) return
    counters.holds = () => NOTHING
    Object.assign(counters.toRead, NOTHING)
    counters.beforeScrape = undefined
  }
}

function grownBy(now: Amount, last: Amount = NOTHING): [events: number, bytes: number] {
  return [now.events - last.events, now.bytes - last.bytes]
}

function grow(amount: Amount, now: Amount, last: Amount | undefined): void {
  add(amount, ...grownBy(now, last))
}
