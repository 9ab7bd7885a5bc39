import type { Metrics } from '../../engine/run/measure/metrics.js'
import type { Service } from '../../service/api/domain/service.js'
import type { RequestCounts } from '../../service/api/http/request-counts.js'
import type { Store } from '../../service/api/store/store.js'

/** Metrics of the service itself. */
export function serviceMetrics(metrics: Metrics, counts: RequestCounts, service: Service, ready: () => boolean): void {
  const one = (value: number) => [{ labels: {}, value }]
  metrics.daemonGauge('sluice_ready', 'Whether the service takes requests.', () => (ready() ? 1 : 0))
  const of = (value: 'requests' | 'seconds') => () =>
    [...counts.all()].map(count => ({
      labels: { method: count.method, route: count.route, status: String(count.status) },
      value: count[value],
    }))
  metrics.series('counter', 'sluice_api_requests_total', 'Requests that were answered.', of('requests'))
  const help = 'Time that requests took, in seconds.'
  metrics.series('counter', 'sluice_api_request_seconds_total', help, of('seconds'))
  metrics.series('counter', 'sluice_api_authenticated_total', 'Requests with a valid key.', () =>
    one(service.counts().authenticated),
  )
  metrics.series('counter', 'sluice_api_refused_keys_total', 'Requests with a refused key.', () =>
    Object.entries(service.counts().refusedKeys).map(([problem, value]) => ({ labels: { problem }, value })),
  )
  metrics.series('counter', 'sluice_api_rate_limited_total', 'Requests above the limit of a key or address.', () =>
    one(service.counts().rateLimited),
  )
  const evicted = 'Daemons that made room for new ones: they reported only once, or not for long.'
  metrics.series('counter', 'sluice_api_daemons_evicted_total', evicted, () => one(service.counts().daemonsEvicted))
  const refused = 'Reports of new daemons that were refused: too many at a time, or in an account.'
  metrics.series('counter', 'sluice_api_daemons_refused_total', refused, () => one(service.counts().daemonsRefused))
  metrics.daemonGauge(
    'sluice_api_revision_bytes',
    'Bytes that the saved revisions of pipelines take.',
    () => service.pipelines.sizes.all,
  )
  metrics.series('gauge', 'sluice_api_keys_expiring_soon', 'Keys that expire soon: rotate them.', () =>
    one(service.counts().keysExpiringSoon),
  )
  metrics.series('gauge', 'sluice_api_keys_expired', 'Keys that have expired and are still there.', () =>
    one(service.counts().keysExpired),
  )
}

/** Whether the service can save changes. */
export function storeMetrics(metrics: Metrics, store: Store): void {
  const one = (value: number) => [{ labels: {}, value }]
  metrics.daemonGauge('sluice_store_writable', 'Whether the last change was saved in the store of the service.', () =>
    store.health().writable ? 1 : 0,
  )
  metrics.series('counter', 'sluice_store_failed_writes_total', 'Tries to write to the store that failed.', () =>
    one(store.health().failedWrites),
  )
  const damaged = 'Reads of records in the store that were not what was saved.'
  metrics.series('counter', 'sluice_store_damaged_reads_total', damaged, () => one(store.health().damagedReads))
  const reopens = 'How often the store was opened again after a failed write.'
  metrics.series('counter', 'sluice_store_reopens_total', reopens, () => one(store.health().reopens))
}
