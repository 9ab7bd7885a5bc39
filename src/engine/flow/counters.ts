import type { ComponentMetrics, Exemplar, Kind, Observer } from '../../core/component.js'
import { type Fact, type FactSample, type LiveNumbers, type Shown, samplesOf } from '../../core/fact.js'
import type { Backlog } from '../../core/status-document.js'
import { settledWithin } from '../../lib/time.js'

export interface Amount {
  events: number
  bytes: number
}

export function add(amount: Amount, events: number, bytes: number): Amount {
  amount.events += events
  amount.bytes += bytes
  return amount
}

export function sum(a: Amount, b: Amount = { events: 0, bytes: 0 }): Amount {
  return { events: a.events + b.events, bytes: a.bytes + b.bytes }
}

function amountOf(amounts: Map<string, Amount>, name: string): Amount {
  let amount = amounts.get(name)
  if (!amount) amounts.set(name, (amount = { events: 0, bytes: 0 }))
  return amount
}

export interface CounterSet {
  component(id: string, kind: Kind, type: string): ComponentCounters
  readonly components: ReadonlyMap<string, ComponentCounters>
}

/** How many more series by key may be added, for all components together. */
export interface SeriesRoom {
  left: number
}

export class ComponentSet implements CounterSet {
  readonly components = new Map<string, ComponentCounters>()
  readonly #room: SeriesRoom

  constructor(mostSeries = Number.POSITIVE_INFINITY) {
    this.#room = { left: mostSeries }
  }

  /** The counters of a component. They are kept by id, so the counts survive the replacement of a pipeline. */
  component(id: string, kind: Kind, type: string): ComponentCounters {
    const present = this.components.get(id)
    if (present && present.kind === kind && present.type === type) return present
    // If the id belonged to a component of another kind or type, keeps the counts of that component aside.
    if (present) this.components.set(`${id} ${present.kind} ${present.type}`, present)
    const aside = `${id} ${kind} ${type}`
    const counters = this.components.get(aside) ?? new ComponentCounters(id, kind, type, this.#room)
    this.components.delete(aside)
    this.components.set(id, counters)
    return counters
  }

  /** Updates values that must be current at a scrape. Waits at most `ms` milliseconds. */
  async refresh(ms: number): Promise<void> {
    const all = [...this.components.values()]
    await settledWithin(
      ms,
      all.flatMap(({ beforeScrape }) => beforeScrape?.() ?? []),
    )
  }

  remove({ id, kind, type }: ComponentCounters): void {
    const { kind: shown, type: as } = this.components.get(id) ?? {}
    this.components.delete(shown === kind && as === type ? id : `${id} ${kind} ${type}`)
  }

  /** Removes all components whose id begins with `prefix`. */
  forget(prefix: string): void {
    this.end(prefix)
    for (const id of this.components.keys()) if (id.startsWith(prefix)) this.components.delete(id)
  }

  /** Marks components whose id begins with `prefix` as ended. */
  end(prefix: string): void {
    for (const counters of this.components.values()) if (counters.id.startsWith(prefix)) counters.end()
  }
}

/** Discard reason for events that a component gave back to their sources before a reload removed the component. */
export const GIVEN_BACK = 'given_back'

/** Subtracts `events` and `bytes` from `from`, but not below 0. Returns the subtracted amount. */
function takeOff(from: Amount, events: number, bytes: number): Amount {
  const taken = { events: Math.min(events, from.events), bytes: Math.min(bytes, from.bytes) }
  add(from, -taken.events, -taken.bytes)
  return taken
}

export interface Counter {
  readonly labels: Record<string, string>
  value: number
  exemplar?: Exemplar
}

export interface CounterSeries extends Shown {
  readonly type: 'counter' | 'gauge'
  readonly help: string
  /** Only for counters that may be removed: labels of the rest counter, to which the removed counts are added. */
  readonly rest?: Record<string, string>
  read(): Iterable<{ labels: Record<string, string>; value: number; exemplar?: Exemplar }>
}

/** Reads the samples of a series or a fact. */
export type ReadSamples = <S>(of: { read(): Iterable<S> }) => Iterable<S>

export const readNow: ReadSamples = of => of.read()

/** Reads each series once, for all parts of one answer. */
export function readOnce(): ReadSamples {
  const found = new Map<object, readonly unknown[]>()
  return <S>(of: { read(): Iterable<S> }) => {
    if (!found.has(of)) found.set(of, [...of.read()])
    return found.get(of) as readonly S[]
  }
}

export interface Histogram {
  readonly help: string
  /** Upper bounds in ascending order. */
  readonly buckets: readonly number[]
  /** Number of observations in each bucket, not cumulative. The last bucket counts values above all bounds. */
  readonly counts: number[]
  readonly exemplars: ((Exemplar & { readonly value: number }) | undefined)[]
  sum: number
  /** The largest value observed, or 0 if all are negative. */
  most: number
}

/**
 * The counters of one component, as plain numbers that are cheap to increment. A scrape turns the numbers into
 * Prometheus series. The numbers satisfy: received + emitted = sent + discarded + consumed + in flight. Events in
 * flight are counted separately. They are in the queue before the component, or the component reports that it holds
 * them. If a component is replaced early, it gives back the events that it holds. These events stay in flight until
 * they arrive again, and count as received only once.
 */
export class ComponentCounters implements ComponentMetrics {
  readonly id: string
  readonly kind: Kind
  readonly type: string
  readonly received: Amount = { events: 0, bytes: 0 }
  /** Events of the main output, or events that a destination's receiver accepted. */
  readonly passed: Amount = { events: 0, bytes: 0 }
  /** Events sent to side outputs, by output. */
  readonly aside = new Map<string, Amount>()
  /** Events that the component merged into emitted events. */
  readonly consumedEvents: Amount = { events: 0, bytes: 0 }
  readonly emittedEvents: Amount = { events: 0, bytes: 0 }
  readonly discards = new Map<string, Amount>()
  /** Advice by discard reason, if events with the reason are lost. */
  readonly losses = new Map<string, string>()
  readonly failures = new Map<string, number>()
  readonly queued: Amount = { events: 0, bytes: 0 }
  /** Events that a replaced component gave back. They will arrive again. */
  readonly #givenBack: Amount = { events: 0, bytes: 0 }
  /** Events that an earlier run received and left in a spool. */
  foundEvents = 0
  /**
   * Only for sources: events that the source passed on and that were given back to it. If the source can read these
   * events again, it does so after the next start or reload.
   */
  readonly toRead: Amount = { events: 0, bytes: 0 }
  /**
   * Only for sources: settled events that the source will read again, because it continues at earlier events that
   * were given back.
   */
  toRepeat = 0
  /** Only for sources: received events that had been settled before and were read again. */
  receivedAgain = 0
  /** Only for sources: events given back after they were passed on. An event given back twice counts twice. */
  returned = 0
  /**
   * Only for sources: whether events were given back. Some events are then passed on twice, so that processors decide
   * about them twice.
   */
  repeated = false
  readonly series = new Map<string, CounterSeries[]>()
  readonly histograms = new Map<string, Histogram>()
  beforeScrape: (() => Promise<void>) | undefined
  /** Events and bytes that the component holds in addition to its queue. */
  holds: () => Amount = () => ({ events: 0, bytes: 0 })
  /** How many of the held events wait for a decision. */
  waiting: () => number = () => 0
  readonly #counters = new Map<string, { readonly counter: Counter; readonly series: CounterSeries }>()
  readonly #room: SeriesRoom
  /** Number of series reserved for this component. */
  #taken = 0

  constructor(id: string, kind: Kind, type: string, room: SeriesRoom = { left: Number.POSITIVE_INFINITY }) {
    this.#room = room
    this.id = id
    this.kind = kind
    this.type = type
  }

  /** Counts a batch that was put in the component's queue. */
  arrived(events: number, bytes: number): void {
    const again = takeOff(this.#givenBack, events, bytes)
    this.received.events += events - again.events
    this.received.bytes += bytes - again.bytes
    this.queued.events += events
    this.queued.bytes += bytes
  }

  /**
   * Counts events that existed before this component started. An earlier run left them, or the component's predecessor
   * left them and they arrive again.
   */
  found(events: number, bytes: number): void {
    const before = this.received.events
    this.arrived(events, bytes)
    this.took(events, bytes)
    this.foundEvents += this.received.events - before
  }

  took(events: number, bytes: number): void {
    this.queued.events -= events
    this.queued.bytes -= bytes
  }

  sent(events: number, bytes: number, output?: string): void {
    add(output === undefined ? this.passed : amountOf(this.aside, output), events, bytes)
  }

  consumed(events: number, bytes: number): void {
    add(this.consumedEvents, events, bytes)
  }

  emitted(events: number, bytes: number): void {
    add(this.emittedEvents, events, bytes)
  }

  /** Counts events that a source passed on. `reads`: whether it rereads given-back events. These do not count twice. */
  read(events: number, bytes: number, reads: boolean): void {
    const again = reads ? takeOff(this.toRead, events, bytes) : { events: 0, bytes: 0 }
    add(this.received, events - again.events, bytes - again.bytes)
    add(this.passed, events - again.events, bytes - again.bytes)
    const repeated = Math.min(this.toRepeat, events - again.events)
    this.toRepeat -= repeated
    this.receivedAgain += repeated
  }

  /** Counts events that were passed on and given back to the source. `reads`: the source will read them again. */
  gotBack(events: number, bytes: number, reads: boolean): void {
    this.returned += events
    this.repeated = true
    if (reads) add(this.toRead, events, bytes)
  }

  discarded(reason: string, events: number, bytes: number): void {
    add(amountOf(this.discards, reason), events, bytes)
  }

  describeLoss(reason: string, todo: string): void {
    this.losses.set(reason, todo)
  }

  failed(kind: string): void {
    this.failures.set(kind, (this.failures.get(kind) ?? 0) + 1)
  }

  counter(name: string, help: string, labels: Record<string, string> = {}, shown?: Shown): Counter {
    const key = `${name} ${JSON.stringify(labels)}`
    let known = this.#counters.get(key)
    if (!known) {
      const counter: Counter = { labels, value: 0 }
      known = { counter, series: { type: 'counter', help, read: () => [counter] } }
      this.#counters.set(key, known)
      this.#add(name, known.series)
    }
    // The functions of a successor replace those of its predecessor.
    Object.assign(known.series, shown)
    return known.counter
  }

  fact({ name, labels, read, ...fact }: Fact): void {
    this.#add(name, { ...fact, type: 'gauge', read: () => samplesOf({ labels, read }) })
  }

  gauge(name: string, help: string, read: () => number, labels: Record<string, string> = {}): void {
    this.fact({ name, help, read, labels })
  }

  gauges(name: string, help: string, read: () => Iterable<FactSample>): void {
    this.fact({ name, help, read })
  }

  counters(name: string, help: string, rest: Record<string, string>, read: CounterSeries['read']): void {
    const all = (this.series.get(name) ?? []).filter(series => series.rest === undefined)
    // The new series is read first, since reading it may change the rest counter, which is in `all`.
    this.series.set(name, [{ type: 'counter', help, rest, read }, ...all])
  }

  #add(name: string, series: CounterSeries): void {
    const all = this.series.get(name)
    if (all) all.push(series)
    else this.series.set(name, [series])
  }

  /** The sum of a metric's series with these labels; undefined if none of them has a finite value. */
  sum(name: string, labels: Readonly<Record<string, string>> = {}, read = readNow): number | undefined {
    const wanted = Object.entries(labels)
    let sum: number | undefined
    for (const series of this.series.get(name) ?? [])
      for (const { labels: own, value } of read(series))
        if (Number.isFinite(value) && wanted.every(([label, text]) => own[label] === text)) sum = (sum ?? 0) + value
    return sum
  }

  histogram(name: string, help: string, buckets: readonly number[]): Observer {
    const known = this.histograms.get(name)
    const histogram = known?.buckets.length === buckets.length ? known : this.#newHistogram(name, help, buckets)
    return {
      observe: (value, exemplar) => {
        let i = 0
        while (i < buckets.length && value > buckets[i]!) i++
        histogram.counts[i]!++
        histogram.sum += value
        if (value > histogram.most) histogram.most = value
        if (exemplar) histogram.exemplars[i] = { ...exemplar, value }
      },
    }
  }

  #newHistogram(name: string, help: string, buckets: readonly number[]): Histogram {
    const counts = new Array(buckets.length + 1).fill(0)
    const histogram: Histogram = { help, buckets, counts, exemplars: [], sum: 0, most: 0 }
    this.histograms.set(name, histogram)
    return histogram
  }

  get live(): Partial<LiveNumbers> {
    const all = [...this.series].flatMap(([name, [first]]) => {
      const value = first?.live && this.sum(name)
      return value === undefined ? [] : first!.live!(value)
    })
    return Object.assign({}, ...all)
  }

  /** The state of the component in a few words. */
  shown(read = readNow): string[] {
    return [...this.series.values()].flat().flatMap(series => {
      const { shown } = series
      if (!shown) return []
      const values = Array.from(read(series), ({ value }) => value)
      return shown(values.length > 0 ? values.reduce((sum, one) => sum + one, 0) : undefined) || []
    })
  }

  /** What the component is behind with, in bytes. */
  backlog(read = readNow): Backlog[] {
    return [...this.series.values()].flat().flatMap(series => {
      const { backlog } = series
      if (!backlog) return []
      const found = Array.from(read(series), ({ labels, value }) => ({ name: labels[backlog] ?? '', bytes: value }))
      return found.filter(({ bytes }) => bytes > 0).map(one => ({ component: this.id, ...one }))
    })
  }

  takeSeries(count: number): boolean {
    if (count > this.#room.left) return false
    this.#room.left -= count
    this.#taken += count
    return true
  }

  freeSeries(count: number): void {
    this.#room.left += count
    this.#taken -= count
  }

  /** Call this if a component ended without a successor. Adds the component's counts by key to the rest counter. */
  end(): void {
    for (const [name, all] of this.series)
      for (const { help, rest, read } of all) {
        if (!rest) continue
        const value = [...read()].reduce((sum, one) => sum + one.value, 0)
        this.counter(name, help, rest).value += value
        this.counters(name, help, rest, () => [])
      }
    this.#removeGauges()
  }

  /** Keeps the counters and removes the gauges. Call this when a component has ended and may be replaced. */
  retire(): void {
    Object.assign(this.#givenBack, this.inFlight())
    Object.assign(this.queued, { events: 0, bytes: 0 })
    this.holds = () => ({ events: 0, bytes: 0 })
    this.waiting = () => 0
    this.beforeScrape = undefined
    this.#removeGauges()
  }

  #removeGauges(): void {
    this.freeSeries(this.#taken)
    for (const [name, all] of this.series) {
      const counted = all.filter(({ type }) => type === 'counter')
      if (counted.length > 0) this.series.set(name, counted)
      else this.series.delete(name)
    }
  }

  /** For a removed component: the events that it gave back will not arrive again, so they count as discarded. */
  abandon(): void {
    const { events, bytes } = takeOff(this.#givenBack, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY)
    if (events !== 0 || bytes !== 0) this.discarded(GIVEN_BACK, events, bytes)
  }

  held(): Amount {
    return sum(this.queued, this.holds())
  }

  /** Events and bytes in the component, including events that it gave back and that will arrive again. */
  inFlight(): Amount {
    return sum(this.held(), this.#givenBack)
  }

  /** The difference between the two sides of the balance: 0 events and 0 bytes if every event is accounted for. */
  imbalance(): Amount {
    const off = this.inFlight()
    for (const { events, bytes } of [
      this.passed,
      this.consumedEvents,
      ...this.aside.values(),
      ...this.discards.values(),
    ])
      add(off, events, bytes)
    for (const { events, bytes } of [this.received, this.emittedEvents]) add(off, -events, -bytes)
    return off
  }
}
