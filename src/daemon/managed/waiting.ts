import type { Logger } from 'pino'
import { ConfigError, errorText, formatProblem } from '../../core/errors.js'
import type { Config } from '../../engine/config/load.js'
import type { ManagedConfig } from '../../engine/config/managed/managed-config.js'
import { Metrics } from '../../engine/run/measure/metrics.js'
import { ConnectionReport } from '../../net/limits.js'
import type { ManagedPipeline } from '../../service/fleet/managed-pipeline.js'
import { onHeldSignal } from '../process/held-signals.js'
import { tellWarnings } from '../process/log.js'
import { onSignals } from '../process/signals.js'
import { NOTHING } from '../run/held.js'
import { type ManagedReport, managedMetrics } from '../run/managed-report.js'
import { ReloadQueue } from '../run/reload.js'
import { Servers } from '../run/servers.js'
import { ConfigWatch, type WatchedFiles } from '../run/watch.js'
import { oneLine } from '../systemd/service-state.js'
import type { Systemd } from '../systemd/systemd.js'

interface Waiting {
  readonly local: ManagedConfig
  /** Reads the local part of the configuration; throws ConfigError. */
  readonly readLocal: () => Promise<ManagedConfig>
  /** Called with each local part that replaces another one. */
  readonly applied: (config: Config) => void
  readonly files: WatchedFiles | undefined
  readonly report: () => ManagedReport
  readonly systemd: Systemd
  readonly log: Logger
}

/**
 * Resolves with the configuration that a managed daemon starts with. While no revision can run, the daemon serves its
 * metrics and its socket and accepts reloads of the local part. Resolves with undefined if a signal ends the wait.
 */
export async function waitForRevision(managed: ManagedPipeline, around: Waiting): Promise<Config | undefined> {
  const { local, readLocal, applied, files, report, systemd, log } = around
  const stopping = new AbortController()
  const signals = onSignals({ stop: () => stopping.abort() }, local.local.shutdownTimeoutMs, log, 'ending')
  const reason = () => managed.waitsFor ?? `waiting for ${report().service}`
  systemd.follow({
    state: () => ({
      ready: managed.waitsFor !== undefined,
      status: oneLine(`waiting for a revision to run: ${reason()}`),
    }),
  })
  let servers: Servers | undefined
  const serve = async () => {
    const metrics = new Metrics(log)
    managedMetrics(metrics, report)
    metrics.daemonGauge(
      'sluice_ready',
      'Whether all destinations are ready and no source is waiting for an operator.',
      () => 0,
    )
    const reports = {
      metrics,
      connections: new ConnectionReport('sluice_metrics_server', (...about) => metrics.daemonCounter(...about), log),
      destinations: () => [{ id: 'pipeline', state: 'holding', reason: reason() }],
      managed: report,
    }
    servers = new Servers(reports, log)
    await servers.open(local.local, NOTHING)
    watch?.set(local.local.watched)
  }
  const reload = async () => {
    watch?.read()
    try {
      const next = await readLocal()
      tellWarnings(log, next.local.warnings)
      if (next.local.dataDir !== local.local.dataDir)
        throw new Error('data_dir can only be changed by a restart; the current one is still in use')
      const listening = await servers?.prepare(next.local.metrics)
      listening?.use()
      applied(next.local)
      watch?.set(next.local.watched)
      log.info({ config: next.local.files }, 'local configuration reloaded; trying the published revision')
      managed.retry(next)
    } catch (error) {
      const problems = error instanceof ConfigError ? error.problems.map(formatProblem) : [errorText(error)]
      const text = 'cannot apply the local configuration; keeping the current one'
      for (const problem of problems) log.error({ code: 'SLUICE_RELOAD_FAILED', error: problem }, text)
    }
  }
  const queue = new ReloadQueue(reload)
  const inTurn = () => queue.request()
  const watch = files && new ConfigWatch(files, () => systemd.reload(inTurn))
  // Signals are held until the servers are open.
  let removeHandler = () => {}
  const waiting = async () => {
    await serve()
    removeHandler = onHeldSignal('SIGHUP', () => void systemd.reload(inTurn))
  }
  let config: Config | undefined
  try {
    const ended = signals.second.then(() => undefined)
    config = await Promise.race([managed.first(stopping.signal, waiting), ended])
  } finally {
    removeHandler()
    watch?.set(false)
    await queue.idle
    signals.remove()
    servers?.close()
  }
  // A signal may arrive while a revision is requested or tried.
  return stopping.signal.aborted ? undefined : config
}
