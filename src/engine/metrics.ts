import type { Logger } from 'pino'
import { collectDefaultMetrics, Registry } from 'prom-client'
import type { Exemplar, Kind } from '../core/component.js'
import { ComponentCounters, type CounterSet } from '../flow/counters.js'
import { Exposition, type Family, type Format, labelText, nextTurn, type ShownExemplar } from '../lib/exposition.js'
import { sleep } from '../lib/time.js'
import { packageVersion } from '../lib/version.js'

type Labels = Readonly<Record<string, string>>

interface About {
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly help: string
  /** All of them, where they are not those of components. */
  readonly read?: () => Iterable<{ readonly labels: Labels; readonly value: number }>
}

/** prom-client's defaults whose names promtool objects to: gauges that end in _total. */
const MISNAMED = ['nodejs_active_handles_total', 'nodejs_active_requests_total', 'nodejs_active_resources_total']

/** How often the delay of the event loop is measured. Node.js includes this interval in what it measures. */
const LOOP_DELAY_MS = 100
const LOOP_DELAYS = /^nodejs_eventloop_lag_(min|max|mean|p\d+)_seconds$/

/** A scrape waits for so long, at most, for what has to be looked up on the disk. It shows the values before that then. */
const REFRESH_MS = 1000

/** So many components are read between turns of the event loop. */
const SLICE = 100

const RECEIVED = 'that reached the component'
const SENT = 'that the component passed on, or that its receiver accepted'
const DISCARDED = 'deliberately not passed on, by reason'
const OF_COMPONENTS: Readonly<Record<string, About>> = {
  sluice_component_received_events_total: { type: 'counter', help: `Events ${RECEIVED}.` },
  sluice_component_received_bytes_total: { type: 'counter', help: `Bytes ${RECEIVED}.` },
  sluice_component_sent_events_total: { type: 'counter', help: `Events ${SENT}.` },
  sluice_component_sent_bytes_total: { type: 'counter', help: `Bytes ${SENT}.` },
  sluice_component_discarded_events_total: { type: 'counter', help: `Events ${DISCARDED}.` },
  sluice_component_discarded_bytes_total: { type: 'counter', help: `Bytes ${DISCARDED}.` },
  sluice_component_consumed_events_total: {
    type: 'counter',
    help: 'Events that became part of what the component emits.',
  },
  sluice_component_emitted_events_total: { type: 'counter', help: "Events of the component's own making." },
  sluice_component_in_flight_events: { type: 'gauge', help: 'Events inside the component.' },
  sluice_component_in_flight_bytes: { type: 'gauge', help: 'Bytes inside the component.' },
  sluice_component_errors_total: { type: 'counter', help: 'Things that went wrong, by kind.' },
  sluice_conservation_errors_total: {
    type: 'counter',
    help: 'Checks that found received and emitted not to be sent, discarded, consumed and in flight together.',
  },
}

/**
 * All metrics of one daemon. Components count plain numbers (counters.ts), which become text at a scrape: those of one
 * component at one moment, so that they add up, and some components in a turn of the event loop. The metrics of the
 * process are prom-client's; by way of it the others would hold the loop up for long where there are many.
 */
export class Metrics implements CounterSet {
  readonly components = new Map<string, ComponentCounters>()
  readonly #process = new Registry()
  /** Whatever was shown once keeps its head. */
  readonly #known = new Map<string, About>()
  readonly #counters = new Map<string, { labels: Labels; value: number }[]>()
  readonly #log: Logger
  readonly #imbalances = new Map<ComponentCounters, number>()
  readonly #labels = new WeakMap<ComponentCounters, { readonly id: string; readonly all: string }>()

  constructor(log: Logger) {
    this.#log = log
    // What measures the delay of the event loop wakes the process this often: every 10 ms would cost more than 2,000 idle files.
    collectDefaultMetrics({ register: this.#process, eventLoopMonitoringPrecision: LOOP_DELAY_MS })
    for (const name of MISNAMED) this.#process.removeSingleMetric(name)
    const build = { version: packageVersion(), node: process.version }
    this.series('gauge', 'sluice_build_info', 'Which program this is; always 1.', () => [{ labels: build, value: 1 }])
    for (const [name, about] of Object.entries(OF_COMPONENTS)) this.#known.set(name, about)
  }

  /** The counters of a component; the same ones for the same id, so that counts survive a rebuilt pipeline. */
  component(id: string, kind: Kind, type: string): ComponentCounters {
    const present = this.components.get(id)
    if (present && present.kind === kind && present.type === type) return present
    // What another component of this id counted is not forgotten.
    if (present) this.components.set(`${id} ${present.kind} ${present.type}`, present)
    const aside = `${id} ${kind} ${type}`
    const counters = this.components.get(aside) ?? new ComponentCounters(id, kind, type)
    this.components.delete(aside)
    this.components.set(id, counters)
    return counters
  }

  /** Gauges of the daemon itself, without a component. */
  daemonGauge(name: string, help: string, read: () => number): void {
    this.series('gauge', name, help, () => [{ labels: {}, value: read() }])
  }

  /** A counter of the daemon itself, one series of `name`. */
  daemonCounter(name: string, help: string, labels: Labels): { value: number } {
    const all = this.#counters.get(name) ?? []
    if (all.length === 0) this.series('counter', name, help, () => all)
    const counter = { labels, value: 0 }
    all.push(counter)
    this.#counters.set(name, all)
    return counter
  }

  /** Series beside those of components, read at each scrape. */
  series(type: 'counter' | 'gauge', name: string, help: string, read: NonNullable<About['read']>): void {
    this.#known.set(name, { type, help, read })
  }

  /** Checks the balance of each component (ComponentCounters); counts and logs where it does not hold. */
  checkConservation(): boolean {
    let holds = true
    for (const c of this.components.values()) if (!this.#check(c)) holds = false
    return holds
  }

  #check(c: ComponentCounters): boolean {
    const off = c.imbalance()
    if (off.events === 0 && off.bytes === 0) return true
    const before = this.#imbalances.get(c) ?? 0
    this.#imbalances.set(c, before + 1)
    if (before === 0) {
      this.#log.error({ code: 'SLUICE_CONSERVATION', component: c.id, ...off }, 'events are not all accounted for')
    }
    return false
  }

  /** The text of a scrape. */
  async render(format: Format = 'text'): Promise<Buffer> {
    await this.#refresh()
    const to = new Exposition(format)
    await this.#readProcess(to)
    // Components of different types that had one id after the other share the series that do not tell the type.
    const shared = [...this.components].some(([key, { id }]) => key !== id)
    const families = new Map<string, Family>()
    const familyOf = (name: string, about: About): Family => {
      let family = families.get(name)
      if (!family) {
        if (!this.#known.has(name)) this.#known.set(name, { type: about.type, help: about.help })
        const { type, help, read } = this.#known.get(name)!
        family = to.family(name, type, help, shared || read !== undefined)
        families.set(name, family)
      }
      return family
    }
    for (const [name, about] of this.#known) {
      const family = familyOf(name, about)
      for (const { labels, value } of about.read?.() ?? []) family.add(labelText(labels), value)
    }
    for (const [i, c] of [...this.components.values()].entries()) {
      if (i > 0 && i % SLICE === 0) await nextTurn()
      this.#check(c)
      this.#readAmounts(c, name => families.get(name)!)
      this.#readOwn(c, familyOf, to)
    }
    return await to.end()
  }

  async #refresh(): Promise<void> {
    const all = [...this.components.values()].flatMap(({ beforeScrape }) => beforeScrape?.() ?? [])
    if (all.length === 0) return
    const done = new AbortController()
    await Promise.race([Promise.allSettled(all), sleep(REFRESH_MS, done.signal)])
    done.abort()
  }

  async #readProcess(to: Exposition): Promise<void> {
    for (const { name, help, type, values } of await this.#process.getMetricsAsJSON()) {
      const family = to.family(name, String(type), help)
      for (const { labels, value, ...rest } of values) {
        const shown = Object.entries(labels).map(([name, value]) => [
          name,
          typeof value === 'number' ? to.bound(value) : String(value),
        ])
        const part = 'metricName' in rest && typeof rest.metricName === 'string' ? rest.metricName : name
        const delay = LOOP_DELAYS.test(name) ? Math.max(0, value - LOOP_DELAY_MS / 1000) : value
        family.add(labelText(Object.fromEntries(shown)), delay, undefined, part)
      }
    }
  }

  /** What every component counts. */
  #readAmounts(c: ComponentCounters, to: (name: string) => Family): void {
    const { id, all } = this.#labelsOf(c)
    to('sluice_component_received_events_total').add(all, c.received.events)
    to('sluice_component_received_bytes_total').add(all, c.received.bytes)
    to('sluice_component_sent_events_total').add(all, c.passed.events)
    to('sluice_component_sent_bytes_total').add(all, c.passed.bytes)
    for (const [reason, { events, bytes }] of c.discards) {
      const labels = `${all},${labelText({ reason })}`
      to('sluice_component_discarded_events_total').add(labels, events)
      to('sluice_component_discarded_bytes_total').add(labels, bytes)
    }
    for (const [output, { events, bytes }] of c.aside) {
      const labels = `${all},${labelText({ output })}`
      to('sluice_component_sent_events_total').add(labels, events)
      to('sluice_component_sent_bytes_total').add(labels, bytes)
    }
    if (c.consumedEvents.events > 0) to('sluice_component_consumed_events_total').add(all, c.consumedEvents.events)
    if (c.emittedEvents.events > 0) to('sluice_component_emitted_events_total').add(all, c.emittedEvents.events)
    const { events, bytes } = c.inFlight()
    to('sluice_component_in_flight_events').add(all, events)
    to('sluice_component_in_flight_bytes').add(all, bytes)
    for (const [kind, n] of c.failures) to('sluice_component_errors_total').add(`${all},${labelText({ kind })}`, n)
    to('sluice_conservation_errors_total').add(id, this.#imbalances.get(c) ?? 0)
  }

  /** What components of its type count besides. */
  #readOwn(c: ComponentCounters, to: (name: string, about: About) => Family, exposition: Exposition): void {
    const { id } = this.#labelsOf(c)
    for (const [name, all] of c.series) {
      if (!all[0]) continue
      const family = to(name, all[0])
      for (const series of all) {
        for (const { labels, value, exemplar } of series.read()) {
          const own = labelText(labels)
          family.add(own === '' ? id : `${id},${own}`, value, exemplar && shown(exemplar, 1))
        }
      }
    }
    for (const [name, { help, buckets, counts, exemplars, sum }] of c.histograms) {
      const family = to(name, { type: 'histogram', help })
      let count = 0
      for (let i = 0; i <= buckets.length; i++) {
        count += counts[i]!
        const last = exemplars[i]
        const le = exposition.bound(buckets[i] ?? Number.POSITIVE_INFINITY)
        family.add(`le="${le}",${id}`, count, last && shown(last, last.value), `${name}_bucket`)
      }
      family.add(id, sum, undefined, `${name}_sum`)
      family.add(id, count, undefined, `${name}_count`)
    }
  }

  #labelsOf(c: ComponentCounters): { readonly id: string; readonly all: string } {
    let text = this.#labels.get(c)
    if (!text) {
      const { id, kind, type } = c
      const all = labelText({ component_id: id, component_kind: kind, component_type: type })
      text = { id: labelText({ component_id: id }), all }
      this.#labels.set(c, text)
    }
    return text
  }
}

function shown({ requestId, at }: Exemplar, value: number): ShownExemplar {
  return { labels: { request_id: requestId }, value, at }
}
