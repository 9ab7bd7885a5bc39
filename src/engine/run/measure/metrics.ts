import type { Logger } from 'pino'
import type { Gauge, Metric, Registry, RegistryContentType } from 'prom-client'
import type { Exemplar } from '../../../core/component.js'
import { type Fact, type GradedProblem, type Seen, samplesOf } from '../../../core/fact.js'
import { nextTurn } from '../../../lib/time.js'
import { packageVersion } from '../../../lib/version.js'
import { type Amount, type ComponentCounters, ComponentSet, type ReadSamples, readNow } from '../../flow/counters.js'

type Labels = Readonly<Record<string, string>>

interface About extends Pick<Fact, 'problem'> {
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly help: string
  /** Only for families that do not belong to components: reads all samples. */
  readonly read?: () => Iterable<{ readonly labels: Labels; readonly value: number }>
}

const isRead = <A extends Pick<About, 'read'>>(about: A): about is A & { read: NonNullable<About['read']> } =>
  about.read !== undefined

/** Metrics of prom-client that promtool rejects: gauges whose names end in _total. */
const MISNAMED = ['nodejs_active_handles_total', 'nodejs_active_requests_total', 'nodejs_active_resources_total']

/**
 * Reading these gauges needs a free file descriptor. Without one, prom-client would show the last value, which is 0 at
 * first.
 */
const FROM_PROC = [
  'process_resident_memory_bytes',
  'process_virtual_memory_bytes',
  'process_heap_bytes',
  'process_open_fds',
  'nodejs_heap_size_total_bytes',
  'nodejs_heap_size_used_bytes',
  'nodejs_external_memory_bytes',
]

/** Sampling interval of the event loop delay. Node.js includes the interval in the values. */
const LOOP_DELAY_MS = 500
const LOOP_DELAYS = /^nodejs_eventloop_lag_(min|max|mean|p\d+)_seconds$/

/** How long a scrape waits for values from disk. After that, it shows the previous values. */
const REFRESH_MS = 1000

export type ScrapeFormat = 'text' | 'openmetrics'

/** Copied from prom-client, which is loaded only when needed. */
export const CONTENT_TYPES = {
  text: 'text/plain; version=0.0.4; charset=utf-8',
  openmetrics: 'application/openmetrics-text; version=1.0.0; charset=utf-8',
} as const satisfies Record<ScrapeFormat, RegistryContentType>

/** Maximum number of remembered metric families of components. Users and plugins choose names, so there may be many. */
const MOST_KNOWN = 1000

/** How many components are read per turn of the event loop. */
const SLICE = 100

/** The names and values of the labels of an exemplar may have at most 128 characters in total. */
const REQUEST_ID = /^[\w.:=+/-]{1,118}$/

const RECEIVED = 'received by the component'
const SENT = 'passed on by the component or accepted by its receiver'
const DISCARDED = 'discarded on purpose, by reason'
const counterOf = (help: string): About => ({ type: 'counter', help })
const gaugeOf = (help: string): About => ({ type: 'gauge', help })
const OF_COMPONENTS: Readonly<Record<string, About>> = {
  sluice_component_received_events_total: counterOf(`Events ${RECEIVED}.`),
  sluice_component_received_bytes_total: counterOf(`Bytes ${RECEIVED}.`),
  sluice_component_sent_events_total: counterOf(`Events ${SENT}.`),
  sluice_component_sent_bytes_total: counterOf(`Bytes ${SENT}.`),
  sluice_component_discarded_events_total: counterOf(`Events ${DISCARDED}.`),
  sluice_component_discarded_bytes_total: counterOf(`Bytes ${DISCARDED}.`),
  sluice_component_consumed_events_total: counterOf('Events merged into the events that the component emits.'),
  sluice_component_emitted_events_total: counterOf('Events created by the component.'),
  sluice_component_in_flight_events: gaugeOf('Events inside the component.'),
  sluice_component_in_flight_bytes: gaugeOf('Bytes inside the component.'),
  sluice_component_errors_total: counterOf('Errors, by kind.'),
  sluice_conservation_errors_total: counterOf(
    'Checks in which received + emitted events differed from sent + discarded + consumed + in flight.',
  ),
}

export interface ComponentSeries {
  readonly name: string
  readonly help: string
  readonly labels: Labels
  readonly value: number
}

/** A sample in the form that prom-client uses. The text of a `sharedLabels` object is built once. */
interface Sample {
  readonly metricName?: string
  readonly labels?: Readonly<Record<string, string | number>>
  readonly sharedLabels?: Labels
  value: number
  readonly exemplar?: { readonly labelSet: Labels; readonly value: number; readonly timestamp: number }
}

/** All samples of one metric in a scrape. */
class Family {
  readonly #values: Sample[] = []
  /** Samples by labels, if several samples may have the same labels. */
  readonly #merged: Map<string, Sample> | undefined
  readonly #name: string
  readonly #about: Omit<About, 'read'>

  constructor(name: string, about: Omit<About, 'read'>, isMerged: boolean) {
    this.#name = name
    this.#about = about
    if (isMerged) this.#merged = new Map()
  }

  add(sample: Sample): void {
    const key = this.#merged && JSON.stringify([sample.metricName, sample.labels, sample.sharedLabels])
    const present = key && this.#merged!.get(key)
    if (present) {
      present.value = this.#about.type === 'gauge' ? sample.value : present.value + sample.value
      return
    }
    if (key) this.#merged!.set(key, sample)
    this.#values.push(sample)
  }

  get help(): string {
    return this.#about.help
  }

  /** The family's name and its samples. Omits histograms, and values that are not finite. */
  get samples(): readonly [string, readonly { readonly labels: Labels; readonly value: number }[]] {
    const plain = this.#values.filter(({ metricName, value }) => metricName === undefined && Number.isFinite(value))
    const texts = (labels: Sample['labels'] = {}) =>
      Object.fromEntries(Object.entries(labels).map(([name, value]) => [name, String(value)]))
    const all = plain.map(({ labels, sharedLabels, value }) => ({
      labels: { ...sharedLabels, ...texts(labels) },
      value,
    }))
    return [this.#name, all]
  }

  /** Converts the family to a metric for a registry. Each family is written in its own event loop turn. */
  asMetric(format: ScrapeFormat, turn: () => Promise<void>): Metric {
    const { type, help } = this.#about
    const get = async () => {
      await turn()
      const name = format === 'openmetrics' && type === 'counter' ? this.#name.replace(/_total$/, '') : this.#name
      return { name, type, help, values: this.#values }
    }
    return { name: this.#name, type, get } as unknown as Metric
  }
}

/**
 * If a call comes during a run, it gets the result of the next run, because the current run began before the call. All
 * calls during a run share this next result.
 */
class Together<T> {
  readonly #make: () => Promise<T>
  #running: Promise<T> | undefined
  #next: Promise<T> | undefined

  constructor(make: () => Promise<T>) {
    this.#make = make
  }

  result(): Promise<T> {
    if (!this.#running) return this.#begin()
    const begin = () => {
      this.#next = undefined
      return this.#begin()
    }
    this.#next ??= this.#running.then(begin, begin)
    return this.#next
  }

  #begin(): Promise<T> {
    const running = this.#make()
    this.#running = running
    const over = () => {
      if (this.#running === running) this.#running = undefined
    }
    running.then(over, over)
    return running
  }
}

/**
 * All metrics of a daemon. Components count plain numbers (engine/flow/counters.ts). A scrape puts these numbers into a
 * prom-client registry. It reads all numbers of a component at one moment, since otherwise they would not add up. A
 * scrape takes several turns of the event loop.
 */
export class Metrics extends ComponentSet {
  #process: ReturnType<typeof measureProcess> | undefined
  /** Metric families shown before. Even without samples, up to MOST_KNOWN of them keep HELP and TYPE lines. */
  readonly #known = new Map<string, About>()
  readonly #counters = new Map<string, { labels: Labels; value: number }[]>()
  readonly #log: Logger
  readonly #imbalances = new Map<ComponentCounters, number>()
  readonly #renders = {
    text: new Together(() => this.#render('text')),
    openmetrics: new Together(() => this.#render('openmetrics')),
  }
  readonly #labels = new WeakMap<ComponentCounters, { readonly id: Labels; readonly all: Labels }>()

  constructor(log: Logger) {
    super()
    this.#log = log
    const build = { version: packageVersion(), node: process.version }
    this.series('gauge', 'sluice_build_info', 'Version of Sluice and Node.js; always 1.', () => [
      { labels: build, value: 1 },
    ])
    for (const [name, about] of Object.entries(OF_COMPONENTS)) this.#known.set(name, about)
  }

  /**
   * Starts to measure the delays and garbage collections of this process, unless this has already started. It loads
   * prom-client, which would take too long at the start of the process. If nothing else calls this function, the first
   * scrape does.
   */
  measureProcess(): ReturnType<typeof measureProcess> {
    this.#process ??= measureProcess()
    return this.#process
  }

  /** Registers a gauge of the daemon that may also report a problem. */
  fact({ name, help, problem, ...fact }: Fact): void {
    this.#known.set(name, { type: 'gauge', help, read: () => samplesOf(fact), problem })
  }

  daemonGauge(name: string, help: string, read: () => number): void {
    this.fact({ name, help, read })
  }

  /** Registers a counter of the daemon. Its value is kept elsewhere, and `read` returns it. */
  daemonTotal(name: string, help: string, read: () => number): void {
    this.series('counter', name, help, () => [{ labels: {}, value: read() }])
  }

  /** Adds a series with these labels to the daemon's counter `name`. */
  daemonCounter(name: string, help: string, labels: Labels): { value: number } {
    const all = this.#counters.get(name) ?? []
    if (all.length === 0) this.series('counter', name, help, () => all)
    const counter = { labels, value: 0 }
    all.push(counter)
    this.#counters.set(name, all)
    return counter
  }

  /** Registers series that do not belong to components, read at each scrape. */
  series(type: 'counter' | 'gauge', name: string, help: string, read: NonNullable<About['read']>): void {
    this.#known.set(name, { type, help, read })
  }

  /** Checks the balance of each component (see ComponentCounters). Counts and logs mismatches. */
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
      this.#log.error({ code: 'SLUICE_CONSERVATION', component: c.id, ...off }, 'event counts do not add up')
    }
    return false
  }

  /** The response to a scrape. Calls during a rendering share the next response, which is rendered afterwards. */
  render(format: ScrapeFormat = 'text'): Promise<Buffer> {
    return this.#renders[format].result()
  }

  async #render(format: ScrapeFormat): Promise<Buffer> {
    await this.refresh(REFRESH_MS)
    const { Registry, registry: ofProcess } = await this.measureProcess()
    const registry = new Registry<RegistryContentType>()
    registry.setContentType(CONTENT_TYPES[format])
    let turns: Promise<void> = Promise.resolve()
    const turn = () => (turns = turns.then(() => nextTurn()))
    const families = [...(await familiesOf(ofProcess, format)), ...(await this.#ofComponents(format))]
    for (const family of families) registry.registerMetric(family.asMetric(format, turn))
    return Buffer.from(await registry.metrics())
  }

  /** The samples of a scrape, by metric name. Omits histograms. */
  async samples(
    read = readNow,
  ): Promise<Readonly<Record<string, readonly { readonly labels: Labels; readonly value: number }[]>>> {
    await this.refresh(REFRESH_MS)
    const { registry } = await this.measureProcess()
    const families = [...(await familiesOf(registry, 'text')), ...(await this.#ofComponents('text', read))]
    return Object.fromEntries(families.map(({ samples }) => samples).filter(([, all]) => all.length > 0))
  }

  /** The samples of one component, as in a scrape. Each sample has the help text of its metric. Omits histograms. */
  async of(component: string): Promise<readonly ComponentSeries[]> {
    await this.refresh(REFRESH_MS)
    return [...(await this.#ofComponents('text'))].flatMap(family => {
      const [name, samples] = family.samples
      const own = samples.filter(({ labels }) => labels.component_id === component)
      return own.map(sample => ({ name, help: family.help, ...sample }))
    })
  }

  /**
   * The problems that facts report, in the order of the facts. `read`: as given to `samples`, which refreshes values and
   * must have been called before.
   */
  problems(wall: number, about?: Seen['about'], read = readNow): GradedProblem[] {
    const found = new Map<string, GradedProblem[]>()
    const ask = (name: string, fact: Pick<About, 'problem' | 'read'>, c?: ComponentCounters) => {
      const { problem } = fact
      if (!problem || !isRead(fact)) return
      const seen = { id: c?.id ?? '', kind: c?.kind ?? '', received: c?.received.events ?? 0, wall, about }
      const component = c && { component: c.id }
      const all = found.get(name) ?? []
      found.set(name, all)
      for (const { labels, value } of read(fact)) {
        const one = problem(value, { ...seen, labels })
        if (one) all.push({ ...component, ...one })
      }
    }
    for (const [name, about] of this.#known) ask(name, about)
    for (const c of this.components.values())
      for (const [name, all] of c.series) for (const series of all) ask(name, series, c)
    return [...found.values()].flat().concat(this.#unbalanced())
  }

  #unbalanced(): GradedProblem[] {
    return [...this.#imbalances.keys()].map(({ id }) => ({
      gravity: 'bug',
      component: id,
      what: `${id}: event counts do not add up`,
      todo: 'This is a bug of Sluice: please report it with the log and the metrics.',
    }))
  }

  async #ofComponents(format: ScrapeFormat, readSamples = readNow): Promise<Iterable<Family>> {
    // Components that had the same id but different types share the series without a type label.
    const shared = [...this.components].some(([key, { id }]) => key !== id)
    if (this.#known.size > MOST_KNOWN)
      for (const [name, { read }] of this.#known)
        if (!read && !Object.hasOwn(OF_COMPONENTS, name)) this.#known.delete(name)
    const families = new Map<string, Family>()
    const familyOf = (name: string, about: About): Family => {
      let family = families.get(name)
      if (!family) {
        if (!this.#known.has(name)) this.#known.set(name, { type: about.type, help: about.help })
        const known = this.#known.get(name)!
        families.set(name, (family = new Family(name, known, shared || known.read !== undefined)))
      }
      return family
    }
    for (const [name, about] of this.#known) {
      const family = familyOf(name, about)
      if (isRead(about)) for (const sample of readSamples(about)) family.add(sample)
    }
    for (const [i, c] of [...this.components.values()].entries()) {
      if (i > 0 && i % SLICE === 0) await nextTurn()
      this.#check(c)
      this.#readAmounts(c, name => families.get(name)!)
      this.#readOwn(c, familyOf, format, readSamples)
    }
    return families.values()
  }

  #readAmounts(c: ComponentCounters, to: (name: string) => Family): void {
    const { id, all } = this.#labelsOf(c)
    const add = (name: string, { events, bytes }: Amount, labels: Partial<Sample> = { sharedLabels: all }) => {
      to(`sluice_component_${name.replace('*', 'events')}`).add({ ...labels, value: events })
      to(`sluice_component_${name.replace('*', 'bytes')}`).add({ ...labels, value: bytes })
    }
    add('received_*_total', c.received)
    add('sent_*_total', c.passed)
    for (const [reason, amount] of c.discards) add('discarded_*_total', amount, { labels: { ...all, reason } })
    for (const [output, amount] of c.aside) add('sent_*_total', amount, { labels: { ...all, output } })
    add('in_flight_*', c.inFlight())
    const one = (name: string, value: number) => value > 0 && to(name).add({ sharedLabels: all, value })
    one('sluice_component_consumed_events_total', c.consumedEvents.events)
    one('sluice_component_emitted_events_total', c.emittedEvents.events)
    for (const [kind, value] of c.failures) to('sluice_component_errors_total').add({ labels: { ...all, kind }, value })
    to('sluice_conservation_errors_total').add({ sharedLabels: id, value: this.#imbalances.get(c) ?? 0 })
  }

  #readOwn(
    c: ComponentCounters,
    to: (name: string, about: About) => Family,
    format: ScrapeFormat,
    read: ReadSamples,
  ): void {
    const { id } = this.#labelsOf(c)
    for (const [name, all] of c.series) {
      if (!all[0]) continue
      const family = to(name, all[0])
      for (const series of all) {
        for (const { labels, value, exemplar } of read(series)) {
          family.add({ labels: { ...id, ...labels }, value, ...shown(exemplar, 1) })
        }
      }
    }
    for (const [name, { help, buckets, counts, exemplars, sum }] of c.histograms) {
      const family = to(name, { type: 'histogram', help })
      let count = 0
      for (let i = 0; i <= buckets.length; i++) {
        count += counts[i]!
        const le = bound(buckets[i] ?? Number.POSITIVE_INFINITY, format)
        const last = exemplars[i]
        family.add({ metricName: `${name}_bucket`, labels: { le, ...id }, value: count, ...shown(last, last?.value) })
      }
      family.add({ metricName: `${name}_sum`, sharedLabels: id, value: sum })
      family.add({ metricName: `${name}_count`, sharedLabels: id, value: count })
    }
  }

  #labelsOf(c: ComponentCounters): { readonly id: Labels; readonly all: Labels } {
    let labels = this.#labels.get(c)
    if (!labels) {
      const { id, kind, type } = c
      labels = {
        id: { component_id: id },
        all: { component_id: id, component_kind: kind, component_type: type },
      }
      this.#labels.set(c, labels)
    }
    return labels
  }
}

async function measureProcess() {
  const { collectDefaultMetrics, Registry } = await import('prom-client')
  const registry = new Registry()
  // The measurement wakes the process at this interval. At 100 ms, it would cause most wakeups of an idle process.
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: LOOP_DELAY_MS })
  for (const name of MISNAMED) registry.removeSingleMetric(name)
  return { Registry, registry }
}

/** The metrics of the process, except metrics that cannot be read now. */
async function familiesOf(process: Registry, format: ScrapeFormat): Promise<Family[]> {
  for (const name of FROM_PROC) (process.getSingleMetric(name) as Gauge | undefined)?.remove()
  return (await process.getMetricsAsJSON()).map(({ name, help, type, values }) => {
    const family = new Family(name, { help, type: String(type) as About['type'] }, false)
    for (const { labels, value, ...rest } of values) {
      const delay = LOOP_DELAYS.test(name) ? Math.max(0, value - LOOP_DELAY_MS / 1000) : value
      const shown = typeof labels.le === 'number' ? { ...labels, le: bound(labels.le, format) } : labels
      family.add({ ...rest, labels: shown as Labels, value: delay })
    }
    return family
  })
}

/** The upper bound of a histogram bucket as a label. In OpenMetrics, it must be a float such as 1.0. */
function bound(value: number, format: ScrapeFormat): string {
  if (!Number.isFinite(value)) return '+Inf'
  return format === 'openmetrics' && Number.isInteger(value) ? value.toFixed(1) : String(value)
}

function shown(exemplar: Exemplar | undefined, value = 1): Pick<Sample, 'exemplar'> {
  // A receiver chooses the id. Other text than an id is left out.
  if (!exemplar || !REQUEST_ID.test(exemplar.requestId)) return {}
  return { exemplar: { labelSet: { request_id: exemplar.requestId }, value, timestamp: exemplar.at / 1000 } }
}
