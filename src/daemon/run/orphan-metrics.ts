import type { Metrics } from '../../engine/run/measure/metrics.js'
import type { Orphan } from '../../engine/run/state/inventory.js'
import { systemClock } from '../../lib/time.js'

/** Exposes data of components that are not configured any more, until it is removed. */
export function orphanMetrics(metrics: Metrics, orphans: () => readonly Orphan[]): void {
  const show = (name: string, help: string, read: (orphan: Orphan) => number | undefined) =>
    metrics.series('gauge', name, help, () =>
      orphans().flatMap(orphan => {
        const value = read(orphan)
        const { id, kind, path } = orphan
        return value === undefined ? [] : [{ labels: { component_id: id, kind, path }, value }]
      }),
    )
  const of = 'data of a component that is not configured any more (kind: checkpoint, buffer or dead_letters)'
  show('sluice_orphaned_bytes', `Size of ${of}.`, ({ bytes }) => bytes)
  show('sluice_orphaned_events', `Events in ${of}.`, ({ events }) => events)
  show('sluice_orphaned_age_seconds', `Time since the last change of ${of}.`, ({ changedAt }) =>
    Math.max(0, (systemClock.wall() - changedAt) / 1000),
  )
}
