import type { DestinationState } from '../../core/status-document.js'
import type { Metrics } from '../../engine/run/measure/metrics.js'
import type { Service } from '../api/domain/service.js'
import type { RequestCounts } from '../api/http/sender.js'
import type { Nodes } from '../api/nodes.js'
import type { Store, StoreHealth } from '../api/store/store.js'

export function serviceMetrics(metrics: Metrics, counts: RequestCounts, service: Service, ready: () => boolean): void {
  metrics.daemonGauge('sluice_ready', 'Whether the service accepts requests.', () => (ready() ? 1 : 0))
  const of = (value: 'requests' | 'seconds') => () =>
    [...counts.all()].map(count => ({
      labels: { method: count.method, route: count.route, status: String(count.status) },
      value: count[value],
    }))
  metrics.series('counter', 'sluice_api_requests_total', 'Requests that were answered.', of('requests'))
  const help = 'Time that requests took, in seconds.'
  metrics.series('counter', 'sluice_api_request_seconds_total', help, of('seconds'))
  const valid = 'Requests with a valid key.'
  metrics.daemonTotal('sluice_api_authenticated_total', valid, () => service.counts().authenticated)
  metrics.series('counter', 'sluice_api_refused_keys_total', 'Requests with a refused key.', () =>
    Object.entries(service.counts().refusedKeys).map(([problem, value]) => ({ labels: { problem }, value })),
  )
  const limited = 'Requests above the limit of a key or address.'
  metrics.daemonTotal('sluice_api_rate_limited_total', limited, () => service.counts().rateLimited)
  const evicted = 'Daemons that had reported only once or briefly, and were replaced by new daemons.'
  metrics.daemonTotal('sluice_api_daemons_evicted_total', evicted, () => service.counts().daemonsEvicted)
  const refused = 'Refused reports of new daemons: too many at the same time, or too many in an account.'
  metrics.daemonTotal('sluice_api_daemons_refused_total', refused, () => service.counts().daemonsRefused)
  const revisions = 'Size of the saved revisions of pipelines.'
  metrics.daemonGauge('sluice_api_revision_bytes', revisions, () => service.pipelines.sizes.all)
  const expiring = 'Keys that expire soon: rotate them.'
  metrics.daemonGauge('sluice_api_keys_expiring_soon', expiring, () => service.counts().keysExpiringSoon)
  const expired = 'Keys that have expired and are not removed yet.'
  metrics.daemonGauge('sluice_api_keys_expired', expired, () => service.counts().keysExpired)
}

export function nodeMetrics(metrics: Metrics, nodes: Nodes): void {
  metrics.series('gauge', 'sluice_service_nodes', 'Nodes of the service, by state: live or gone.', () =>
    (['live', 'gone'] as const).map(state => ({
      labels: { state },
      value: state === 'live' ? nodes.live : nodes.gone.length,
    })),
  )
  const help = 'Events in the disk buffers of a node that does not run, as counted a few seconds before it ended.'
  metrics.series('gauge', 'sluice_service_gone_node_events', help, () =>
    nodes.gone.map(({ id, name, events }) => ({ labels: { node: name, id }, value: events })),
  )
}

/** Whether the service can save changes, and what a failover of PostgreSQL has lost. */
export function storeMetrics(metrics: Metrics, store: Store): void {
  const writable = 'Whether the last change was saved in the store of the service.'
  metrics.daemonGauge('sluice_store_writable', writable, () => (store.health().writable ? 1 : 0))
  const failed = 'Failed writes to the store.'
  metrics.daemonTotal('sluice_store_failed_writes_total', failed, () => store.health().failedWrites)
  const times = {
    failed_since: ['Since when the store cannot be read or written; 0 if it works.', ({ failedSince }) => failedSince],
    lost_from: [
      'When the store confirmed the earliest change that the last failover may have lost.',
      ({ lost }) => lost?.from,
    ],
    lost_until: [
      'When the loss of confirmed changes was noticed; 0 if no changes were lost.',
      ({ lost }) => lost?.until,
    ],
  } satisfies Record<string, [help: string, time: (health: StoreHealth) => number | undefined]>
  for (const [name, [help, time]] of Object.entries(times))
    metrics.daemonGauge(`sluice_store_${name}_timestamp_seconds`, help, () => (time(store.health()) ?? 0) / 1000)
}

/** The store's part of /readyz. */
export function storeReadiness(store: Store): DestinationState {
  const { readable, failedSince, lost } = store.health()
  const iso = (time: number) => new Date(time).toISOString()
  const reasons: string[] = []
  if (failedSince !== undefined)
    reasons.push(`${readable ? 'changes cannot be saved' : 'it cannot be read'} since ${iso(failedSince)}`)
  if (lost) reasons.push(`changes that were confirmed between ${iso(lost.from)} and ${iso(lost.until)} may be lost`)
  const reason = reasons.join('; ') || undefined
  return { id: 'store', state: readable ? 'ready' : 'failing', reason, ownReason: reason }
}
