import type { Logger } from 'pino'
import { errorText } from '../../core/errors.js'
import type { Fact } from '../../core/fact.js'
import type { ManagedReport } from '../../core/status-document.js'
import type { Metrics } from '../../engine/run/measure/metrics.js'
import type { UnsavedPositions } from '../../engine/run/state/checkpoints.js'
import { adviceFor, type Orphan } from '../../engine/run/state/inventory.js'
import { placeInPlugin } from '../../lib/modules/plugin-place.js'
import { systemClock } from '../../lib/time.js'
import { counted, lasting, short } from '../../lib/units.js'
import { ConnectionReport } from '../../net/limits.js'
import { tolerateFaults } from '../process/faults.js'

/** Logs positions that are unsaved when the daemon ends. Returns whether there are any. */
export function reportUnsaved(unsaved: readonly UnsavedPositions[], log: Logger): boolean {
  for (const { source, file, error, savedAt } of unsaved) {
    const since = savedAt === undefined ? 'the start' : new Date(savedAt).toISOString()
    log.error(
      { code: 'SLUICE_ENDED_WITHOUT_POSITIONS', source, file, error, since },
      'ended without saving the last positions of a source; events delivered since the last save are sent again after the next start. Before that start, check the disk of data_dir',
    )
  }
  return unsaved.length > 0
}

/** The data of components that are not configured any more, as words. */
const LEFT: Readonly<Record<Orphan['kind'], (orphan: Orphan) => string>> = {
  checkpoint: () => 'saved positions',
  buckets: () => 'saved buckets',
  buffer: ({ events }) => (events ? `a buffer with ${counted(events, 'event')}` : 'a buffer that cannot be read now'),
  spool: ({ events }) => (events ? `a spool with ${counted(events, 'event')}` : 'a spool that cannot be read now'),
  dead_letters: ({ events = 0 }) => counted(events, 'rejected event'),
}

/** Exposes the data of components that are not configured any more, until the data is removed. */
export function orphanMetrics(metrics: Metrics, orphans: () => readonly Orphan[]): void {
  const show = (name: string, help: string, value: (orphan: Orphan) => number | undefined, problem?: Fact['problem']) =>
    metrics.fact({
      name,
      help,
      read: () =>
        orphans().flatMap(orphan => {
          const [number, { id, kind, path }] = [value(orphan), orphan]
          return number === undefined ? [] : { labels: { component_id: id, kind, path }, value: number }
        }),
      problem,
    })
  const of = 'data of a component that is not configured any more (kind: checkpoint, buckets, buffer or dead_letters)'
  show(
    'sluice_orphaned_bytes',
    `Size of ${of}.`,
    ({ bytes }) => bytes,
    (bytes, { labels: { path = '' } }) => {
      const orphan = orphans().find(one => one.path === path)
      return (
        orphan && {
          // Deleting positions and buckets loses no events, and they may have been left on purpose.
          gravity: ['checkpoint', 'buckets'].includes(orphan.kind) ? 'notice' : 'orphaned',
          what: `${orphan.id} is not configured any more and left ${LEFT[orphan.kind](orphan)} (${short(bytes)}B) in ${path}`,
          todo: adviceFor(orphan),
        }
      )
    },
  )
  show('sluice_orphaned_events', `Events in ${of}.`, ({ events }) => events)
  show('sluice_orphaned_age_seconds', `Time since the last change of ${of}.`, ({ changedAt }) =>
    Math.max(0, (systemClock.wall() - changedAt) / 1000),
  )
}

const FAULTS_HELP = 'Errors that plugins threw outside of their calls, such as in a timer.'

/**
 * Lets the daemon continue after an error that a plugin throws in its own timers or listeners, or in a promise that
 * nobody awaits. Such an error is logged and counted, and no event is lost. After an error whose stack does not name a
 * plugin, the daemon ends. The returned function restores the usual handling.
 */
export function tolerateFaultsOfPlugins(metrics: Metrics, log: Logger): () => void {
  let faults = 0
  metrics.daemonTotal('sluice_plugin_faults_total', FAULTS_HELP, () => faults)
  return tolerateFaults(error => {
    const place = placeInPlugin(error)
    if (place === undefined) return false
    faults++
    const text = 'a plugin threw an error outside of its calls, such as in a timer; the daemon continues'
    log.error({ code: 'SLUICE_PLUGIN_FAULT', error: errorText(error), place }, text)
    return true
  })
}

export interface Managed {
  readonly report: () => ManagedReport
  /** Called with the reason why the revision cannot start yet. */
  readonly held: (reason: string) => void
}

export function managedMetrics(metrics: Metrics, read: () => ManagedReport): void {
  const { pipeline } = read()
  const help = 'The published pipeline that the daemon runs; always 1.'
  metrics.series('gauge', 'sluice_managed_info', help, () => [{ labels: { pipeline }, value: 1 }])
  const gauge = (
    name: string,
    help: string,
    value: (report: ManagedReport) => number | undefined,
    problem?: Fact['problem'],
  ) =>
    metrics.fact({
      name: `sluice_managed_${name}`,
      help,
      read: () => value(read()) ?? [],
      problem,
    })
  const current = () => {
    const { revision } = read()
    return revision === undefined ? 'No revision is running.' : `Revision ${revision} keeps running.`
  }
  gauge('revision', 'The running revision; missing if no revision runs.', ({ revision }) => revision)
  gauge('published_revision', 'The newest revision that the service has published.', ({ published }) => published)
  gauge(
    'revision_refused',
    'Whether this daemon cannot run the newest revision.',
    ({ refused }) => (refused === undefined ? 0 : 1),
    isRefused => {
      const { revision, refused, refusal } = read()
      const what = `revision ${refused} of the pipeline cannot run here: ${refusal}`
      const todo = `${current()} Correct the pipeline, or correct the local configuration and reload the daemon.`
      return isRefused > 0 && revision !== undefined && { gravity: 'service', what, todo }
    },
  )
  gauge('last_contact_timestamp_seconds', 'When the service last responded.', one => one.last_contact)
  gauge(
    'service_unreachable_seconds',
    'Time since the service stopped responding; 0 while it responds.',
    one => one.unreachable_seconds ?? 0,
    seconds => {
      const { service, unreachable, report_problem } = read()
      const check = 'Check the network, the address of the pipeline and the access key.'
      if (seconds >= AWAY_S) {
        const what = `the service ${service} has not sent the pipeline for ${lasting(seconds)}: ${unreachable}`
        return { gravity: 'service', what, todo: `${current()} ${check}` }
      }
      if (report_problem === undefined || unreachable !== undefined) return undefined
      const what = `the service does not accept the reports of this daemon: ${report_problem}`
      return { gravity: 'service', what, todo: `${current()} \`sluice fleet\` shows old data, or nothing.` }
    },
  )
}

/** Outages of fewer seconds are not reported, because the service may just be restarting or being updated. */
const AWAY_S = 60

/** Counts connections to the server of metrics. */
export const serverConnections = (metrics: Metrics, log: Logger) =>
  new ConnectionReport('sluice_metrics_server', (...about) => metrics.daemonCounter(...about), log)
