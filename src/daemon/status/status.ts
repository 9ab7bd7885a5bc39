import { hostname } from 'node:os'
import type {
  Books,
  DestinationState,
  ManagedReport,
  PageState,
  Status,
  Totals,
  Wait,
  WaitState,
} from '../../core/status-document.js'
import { splitInput } from '../../engine/config/inputs.js'
import { type Amount, type ComponentCounters, type ReadSamples, readOnce } from '../../engine/flow/counters.js'
import { utilizationOf } from '../../engine/flow/utilization.js'
import type { Metrics } from '../../engine/run/measure/metrics.js'
import { blocksOthers } from '../../engine/run/measure/wait-facts.js'
import { systemClock } from '../../lib/time.js'
import { packageVersion } from '../../lib/version.js'
import { fateOf, type Named, type Observed, problemsOf } from './problems.js'
import type { Rates } from './rates.js'
import { isReady } from './ready.js'

/**
 * The version of the document. It increases when a member is removed or changes its meaning, but not when a member is
 * added.
 */
const VERSION = 1

export function booksOf(totals: Totals, components: Iterable<ComponentCounters>): Books {
  const [lost, kept]: [Totals['discarded'], Totals['discarded']] = [{}, {}]
  for (const counters of components)
    for (const [reason, { events }] of counters.discards) {
      const of = { lost, kept, wanted: undefined }[fateOf(counters, reason)]
      if (of && events > 0) (of[counters.id] ??= {})[reason] = events
    }
  return { ...totals, in_flight: totals.undelivered, lost, kept }
}

export interface Reports {
  /** The running components, in the order of the configuration. Metrics also have components that a reload removed. */
  components?(): readonly Named[]
  /** Every destination. Its `reason` says why it is not ready. */
  destinations(): Observed['destinations']
  /** Sources that wait for an operator, or that failed recently and are being restarted. */
  failures?(): Observed['sources']
  /** Processors that wait for a server which does not reply, or that do not finish processing their events. */
  outages?(): Observed['processors']
  /** Components that wait for others, which make no progress. */
  waits?(): readonly Wait[]
  /** Whether a signal has asked the daemon to end. Until it ends, it delivers the events that it has already read. */
  isStopping?(): boolean
  /** Start of the running reload, wall clock in milliseconds; undefined: no reload is running. */
  reloadingSince?(): number | undefined
  /** State of a managed daemon and of its connection to the service. */
  managed?(): ManagedReport
  about?(): NonNullable<Observed['about']>
  readonly rates?: Rates
  /** When the daemon started, wall clock in milliseconds. */
  readonly startedAt?: number
  totals?(): Totals
  /** Undefined: the daemon has no page. */
  page?(): PageState | undefined
}

/** Chooses the reasons to show. Without `hasTexts`, these are in words of Sluice alone. */
function worded<T extends Partial<DestinationState>>(all: readonly T[], hasTexts: boolean): T[] {
  return all.map(({ ownReason = 'unknown error', ...one }) => {
    const past = one.last_outage && { last_outage: { ...one.last_outage, error: undefined } }
    return { ...one, ...(!hasTexts && { reason: one.reason && ownReason, ...past }) } as object as T
  })
}

/** Readiness of all parts, without numbers. `hasTexts`: whether reasons may quote receivers, and thereby events. */
export function readiness(reports: Reports, hasTexts: boolean) {
  const destinations = worded(reports.destinations(), hasTexts)
  const sources = worded(reports.failures?.() ?? [], hasTexts)
  const processors = worded(reports.outages?.() ?? [], hasTexts)
  const stopping = reports.isStopping?.() ?? false
  const since = reports.reloadingSince?.()
  return {
    ready: !stopping && isReady(destinations, sources, processors),
    stopping,
    ...(since !== undefined && { reloading_since: new Date(since).toISOString() }),
    destinations,
    sources,
    processors,
    ...(reports.managed && { managed: reports.managed() }),
  }
}

const MEMORY = 'process_resident_memory_bytes'

/** A component that is busy for a smaller share of the time is not a bottleneck. */
const LEAST_SHARE = 0.5

type MetricsOf = Pick<Metrics, 'samples' | 'components' | 'problems'>

/** `hasTexts`: as in `readiness`. `waitState`: the reason why events wait in a component; undefined if no event waits. */
export async function statusOf(
  reports: Reports,
  metrics: MetricsOf,
  hasTexts: boolean,
  waitState: (component: string) => WaitState | undefined = () => undefined,
  wall = systemClock.wall(),
): Promise<Status> {
  const { stopping, ...state } = readiness(reports, hasTexts)
  const read = readOnce()
  const samples = await metrics.samples(read)
  const about = reports.about?.()
  const components = reports.components?.() ?? []
  const rates = reports.rates?.all()
  const waits = reports.waits?.() ?? []
  const counters = components.flatMap(({ id }) => metrics.components.get(id) ?? [])
  const bottleneck = bottleneckOf(counters, blockedIn(state), read)
  const isBlocked = blockedConnections(components, waits)
  const page = reports.page?.()
  const errors = new Map(
    [...state.destinations, ...state.sources, ...state.processors].map(one => [one.id, one.reason]),
  )
  return {
    version: VERSION,
    at: new Date(wall).toISOString(),
    ...(reports.startedAt !== undefined && { started_at: new Date(reports.startedAt).toISOString() }),
    version_of_sluice: packageVersion(),
    node: process.version,
    memory: samples[MEMORY]?.[0]?.value,
    host: hostname(),
    ...state,
    ...(stopping && { stopping }),
    ...about,
    ...problemsOf({ ...state, wall, metrics, about, components, rates: reports.rates, read }),
    ...(reports.totals && { books: booksOf(reports.totals(), metrics.components.values()) }),
    ...(page && { status_page: page }),
    ...(bottleneck && { bottleneck }),
    waiting_for: waits,
    waiting: counters.flatMap(({ id, waiting }) => {
      const events = waiting()
      const wait = events > 0 ? waitState(id) : undefined
      // The events may have left by now.
      return wait ? [{ id, events, ...wait }] : []
    }),
    components: components.map(one => {
      const blocked_inputs = one.inputs?.filter(input => isBlocked(input, one.id))
      return {
        ...componentStatus(
          one,
          metrics.components.get(one.id),
          state.destinations.find(({ id }) => id === one.id),
          read,
        ),
        ...(blocked_inputs?.length && { blocked_inputs }),
        last_error: errors.get(one.id),
        per_second: rates?.get(one.id),
      }
    }),
    backlog: counters.flatMap(one => one.backlog(read)),
    series: samples,
  }
}

/**
 * Components that wait for somebody or something else. Such a component is not a bottleneck, because it would still
 * wait if it had more capacity.
 */
function blockedIn({ destinations, processors }: Pick<Observed, 'destinations' | 'processors'>): ReadonlySet<string> {
  const waiting = destinations.filter(({ state }) => state !== 'ready' && state !== 'refusing')
  return new Set([...waiting, ...processors].map(({ id }) => id))
}

function bottleneckOf(
  all: readonly ComponentCounters[],
  blocked: ReadonlySet<string>,
  read: ReadSamples,
): Status['bottleneck'] {
  const [busiest] = all
    .filter(one => !blocksOthers(one, read))
    .map(one => ({ id: one.id, share: utilizationOf(one, read) ?? 0 }))
    .filter(({ id, share }) => share >= LEAST_SHARE && !blocked.has(id))
    .sort((a, b) => b.share - a.share)
  return busiest
}

/** Whether events of an input wait for a component: for the cause of their sender's wait, or on the way to it. */
function blockedConnections(components: readonly Named[], waits: readonly Wait[]) {
  const inputsOf = new Map(components.map(({ id, inputs = [] }) => [id, inputs]))
  const onWay = new Map<string, Set<string>>()
  for (const root of new Set(waits.flatMap(wait => wait.for))) {
    const before = new Set([root])
    onWay.set(root, before)
    // The set grows during this loop.
    for (const id of before) for (const input of inputsOf.get(id) ?? []) before.add(splitInput(input)[0])
  }
  const causes = new Map(waits.map(wait => [wait.id, wait.for]))
  return (input: string, id: string) =>
    causes.get(splitInput(input)[0])?.some(root => onWay.get(root)!.has(id)) === true
}

function componentStatus(
  { id, kind, type, inputs = [] }: Named,
  counters: ComponentCounters | undefined,
  destination: DestinationState | undefined,
  read: ReadSamples,
) {
  const { discards, aside, failures } = counters ?? {}
  const events = (amounts: ReadonlyMap<string, Amount> = new Map()) =>
    Object.fromEntries([...amounts].map(([name, { events }]) => [name, events]))
  const total = (all: Readonly<Record<string, number>>) => Object.values(all).reduce((sum, one) => sum + one, 0)
  const [side_outputs, discarded_for] = [events(aside), events(discards)]
  return {
    id,
    kind,
    type,
    inputs,
    state: [...(destination ? [destination.state] : []), ...(counters?.shown(read) ?? [])].join(', '),
    received: counters?.received.events ?? 0,
    received_bytes: counters?.received.bytes ?? 0,
    sent: (counters?.passed.events ?? 0) + total(side_outputs),
    ...(aside?.size && { side_outputs }),
    discarded: total(discarded_for),
    ...(discards?.size && { discarded_for }),
    ...(counters?.emittedEvents.events && { emitted: counters.emittedEvents.events }),
    ...(counters?.consumedEvents.events && { consumed: counters.consumedEvents.events }),
    in_flight: counters?.inFlight().events ?? 0,
    ...(failures?.size && { errors: Object.fromEntries(failures) }),
    utilization: counters && utilizationOf(counters, read),
  }
}
