import type { Logger } from 'pino'
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { Kind } from '../core/component.js'
import { packageVersion } from '../lib/version.js'
import { ComponentCounters, type CounterSet } from './counters.js'

type Labels = Record<string, string>

/** prom-client's defaults whose names promtool objects to: gauges that end in _total. */
const MISNAMED = ['nodejs_active_handles_total', 'nodejs_active_requests_total', 'nodejs_active_resources_total']

/** How often the delay of the event loop is measured; it is part of what is measured. */
export const LOOP_DELAY_MS = 100

const COMPONENT = ['component_id', 'component_kind', 'component_type'] as const

/** All metrics of one daemon. Components count plain numbers (counters.ts); they become series at a scrape. */
export class Metrics implements CounterSet {
  readonly components = new Map<string, ComponentCounters>()
  readonly #registry = new Registry()
  readonly #log: Logger
  readonly #imbalances = new Map<string, number>()
  /** Names of series that components made, registered when first seen. */
  readonly #known = new Set<string>()

  constructor(log: Logger) {
    this.#log = log
    // What measures the delay of the event loop wakes the process this often: every 10 ms would cost more than 2,000 idle files.
    collectDefaultMetrics({ register: this.#registry, eventLoopMonitoringPrecision: LOOP_DELAY_MS })
    for (const name of MISNAMED) this.#registry.removeSingleMetric(name)
    this.#gauge('sluice_build_info', 'Which program this is; always 1.', ['version', 'node'], set =>
      set({ version: packageVersion(), node: process.version }, 1),
    )
    this.#amounts('received', 'that reached the component', c => [[{}, c.received]])
    this.#amounts('sent', 'that the component passed on, or that its receiver accepted', c => [[{}, c.passed]])
    this.#amounts('discarded', 'deliberately not passed on, by reason', c =>
      [...c.discards].map(([reason, amount]) => [{ reason }, amount] as const),
    )
    for (const unit of ['events', 'bytes'] as const) {
      this.#gauge(`sluice_component_in_flight_${unit}`, `${title(unit)} inside the component.`, [...COMPONENT], set => {
        for (const c of this.components.values()) set(labelsOf(c), c.inFlight()[unit])
      })
    }
    this.#counter('sluice_component_errors_total', 'Things that went wrong, by kind.', [...COMPONENT, 'kind'], inc => {
      for (const c of this.components.values()) for (const [kind, n] of c.failures) inc({ ...labelsOf(c), kind }, n)
    })
    const help = 'Checks that found received, sent, discarded and in flight not to add up.'
    this.#counter('sluice_conservation_errors_total', help, ['component_id'], inc => {
      for (const c of this.components.values()) inc({ component_id: c.id }, this.#imbalances.get(c.id) ?? 0)
    })
  }

  /** The counters of a component; the same ones for the same id, so that counts survive a rebuilt pipeline. */
  component(id: string, kind: Kind, type: string): ComponentCounters {
    const known = this.components.get(id)
    if (known && known.kind === kind && known.type === type) return known
    // What another component of this id counted is not forgotten.
    if (known) this.components.set(`${id} ${known.kind} ${known.type}`, known)
    const counters = new ComponentCounters(id, kind, type)
    this.components.set(id, counters)
    return counters
  }

  /** Gauges of the daemon itself, without a component. */
  daemonGauge(name: string, help: string, read: () => number): void {
    this.#gauge(name, help, [], set => set({}, read()))
  }

  /** Series beside those of components, read at each scrape. */
  series(
    type: 'counter' | 'gauge',
    name: string,
    help: string,
    labelNames: readonly string[],
    read: () => Iterable<{ readonly labels: Labels; readonly value: number }>,
  ): void {
    const each = (put: (labels: Labels, n: number) => void) => {
      for (const { labels, value } of read()) put(labels, value)
    }
    if (type === 'counter') this.#counter(name, help, [...labelNames], each)
    else this.#gauge(name, help, [...labelNames], each)
  }

  /** Checks received = sent + discarded + in flight for each component; counts and logs where it does not hold. */
  checkConservation(): boolean {
    let holds = true
    for (const c of this.components.values()) {
      const off = c.imbalance()
      if (off.events === 0 && off.bytes === 0) continue
      holds = false
      const before = this.#imbalances.get(c.id) ?? 0
      this.#imbalances.set(c.id, before + 1)
      if (before === 0) {
        this.#log.error({ code: 'SLUICE_CONSERVATION', component: c.id, ...off }, 'events are not all accounted for')
      }
    }
    return holds
  }

  /** The text of a scrape. */
  async render(): Promise<string> {
    this.checkConservation()
    this.#registerNew()
    return this.#registry.metrics()
  }

  get contentType(): string {
    return this.#registry.contentType
  }

  #amounts(
    what: string,
    help: string,
    read: (c: ComponentCounters) => Iterable<readonly [Labels, { events: number; bytes: number }]>,
  ): void {
    const names = what === 'discarded' ? [...COMPONENT, 'reason'] : [...COMPONENT]
    for (const unit of ['events', 'bytes'] as const) {
      this.#counter(`sluice_component_${what}_${unit}_total`, `${title(unit)} ${help}.`, names, inc => {
        for (const c of this.components.values()) {
          for (const [labels, amount] of read(c)) inc({ ...labelsOf(c), ...labels }, amount[unit])
        }
      })
    }
  }

  #counter(name: string, help: string, labelNames: string[], read: (inc: (labels: Labels, n: number) => void) => void) {
    new Counter({
      name,
      help,
      labelNames,
      registers: [this.#registry],
      collect() {
        this.reset()
        read((labels, n) => this.inc(labels, n))
      },
    })
  }

  #gauge(name: string, help: string, labelNames: string[], read: (set: (labels: Labels, n: number) => void) => void) {
    new Gauge({
      name,
      help,
      labelNames,
      registers: [this.#registry],
      collect() {
        this.reset()
        read((labels, n) => this.set(labels, n))
      },
    })
  }

  /** Series that components made since the last scrape. All of one name have the same labels. */
  #registerNew(): void {
    for (const c of this.components.values()) {
      for (const [name, [first]] of c.series) {
        if (this.#known.has(name) || !first) continue
        const [example] = first.read()
        if (!example) continue
        this.#known.add(name)
        const names = ['component_id', ...Object.keys(example.labels)]
        const read = (put: (labels: Labels, n: number) => void) => this.#readSeries(name, put)
        if (first.type === 'counter') this.#counter(name, first.help, names, read)
        else this.#gauge(name, first.help, names, read)
      }
      for (const [name, { help, buckets }] of c.histograms) {
        if (this.#known.has(name)) continue
        this.#known.add(name)
        this.#histogram(name, help, buckets)
      }
    }
  }

  #readSeries(name: string, put: (labels: Labels, n: number) => void): void {
    for (const c of this.components.values()) {
      for (const series of c.series.get(name) ?? []) {
        for (const { labels, value } of series.read()) put({ component_id: c.id, ...labels }, value)
      }
    }
  }

  /** prom-client has no way to set a histogram: this one shows our counts as if it had observed them. */
  #histogram(name: string, help: string, buckets: readonly number[]): void {
    const components = this.components
    const histogram = new Histogram({
      name,
      help,
      labelNames: ['component_id'],
      buckets: [...buckets],
      registers: [this.#registry],
    })
    histogram.get = async () => {
      const values = []
      for (const c of components.values()) {
        const own = c.histograms.get(name)
        if (!own) continue
        let count = 0
        for (let i = 0; i <= own.buckets.length; i++) {
          count += own.counts[i]!
          const le = i === own.buckets.length ? '+Inf' : own.buckets[i]!
          values.push({ labels: { le, component_id: c.id }, value: count, metricName: `${name}_bucket` })
        }
        values.push({ labels: { component_id: c.id }, value: own.sum, metricName: `${name}_sum` })
        values.push({ labels: { component_id: c.id }, value: count, metricName: `${name}_count` })
      }
      return { name, help, type: 'histogram', values, aggregator: 'sum' } as never
    }
  }
}

function labelsOf(c: ComponentCounters): Labels {
  return { component_id: c.id, component_kind: c.kind, component_type: c.type }
}

function title(unit: string): string {
  return unit[0]!.toUpperCase() + unit.slice(1)
}
