import type { Metrics } from '../../engine/run/measure/metrics.js'
import type { ManagedStatus } from '../../service/fleet/managed-status.js'

/** What /readyz of a managed daemon shows about its pipeline and its service. */
export interface ManagedReport extends ManagedStatus {
  readonly pipeline: string
  readonly service: string
}

/** The part of a daemon that a service manages. */
export interface Managed {
  readonly report: () => ManagedReport
  /** Reports why the revision cannot start yet. */
  readonly held: (reason: string) => void
}

/** Exposes the report as metrics. */
export function managedMetrics(metrics: Metrics, read: () => ManagedReport): void {
  const { pipeline } = read()
  const help = 'The pipeline of the service that runs; always 1.'
  metrics.series('gauge', 'sluice_managed_info', help, () => [{ labels: { pipeline }, value: 1 }])
  const gauge = (name: string, help: string, value: (report: ManagedReport) => number | undefined) =>
    metrics.series('gauge', `sluice_managed_${name}`, help, () => {
      const found = value(read())
      return found === undefined ? [] : [{ labels: {}, value: found }]
    })
  gauge('revision', 'The revision that runs; missing if none does.', ({ revision }) => revision)
  gauge('published_revision', 'The newest revision that the service has published.', ({ published }) => published)
  gauge('revision_refused', 'Whether the newest revision cannot run here.', ({ refused }) =>
    refused === undefined ? 0 : 1,
  )
  gauge('last_contact_timestamp_seconds', 'When the service last responded.', one => one.last_contact)
  gauge('service_unreachable_seconds', 'Time since the service stopped responding; 0 while it responds.', one => {
    return one.unreachable_seconds ?? 0
  })
}
