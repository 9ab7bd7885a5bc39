import type { Logger } from 'pino'
import type { ManagedReport } from '../../core/status-document.js'
import { StateUnreadable } from '../../core/unreadable.js'
import type { Config } from '../../engine/config/load.js'
import type { ManagedConfig } from '../../engine/config/published/managed-config.js'
import { Metrics } from '../../engine/run/measure/metrics.js'
import { Backoff, systemRandom } from '../../lib/backoff.js'
import { sleep, systemClock } from '../../lib/time.js'
import type { ConnectionEvents } from '../../net/limits.js'
import type { Served } from '../admin/server.js'
import type { ManagedPipeline } from '../fleet/managed-pipeline.js'
import { onSignals } from '../process/signals.js'
import { statusLine } from '../systemd/service-state.js'
import type { Systemd } from '../systemd/systemd.js'
import { type Managed, managedMetrics, serverConnections } from './gauges.js'
import { onReload, type ReloadOrigin } from './reload.js'
import { Servers } from './servers.js'

/** A daemon whose pipeline cannot run yet waits here. It can be inspected meanwhile. A signal ends the wait. */

const RETRY_FIRST_MS = 500
const RETRY_MAX_MS = 10_000
/** The data for inspections while no pipeline runs. */
const NOTHING = {
  taps: {
    tap: () => undefined,
    outputs: () => [],
    processor: () => undefined,
    waiting: () => undefined,
    readers: () => [],
  },
  follow: () => () => {},
}

interface Runtime {
  readonly config: Config
  readonly metrics: Metrics
  readonly connections: ConnectionEvents
  readonly systemd: Systemd
  readonly managed: Managed | undefined
  readonly log: Logger
}

interface Reported extends Pick<Served, 'connections' | 'managed'> {
  readonly metrics: Metrics
}

/** Creates the servers of a daemon without a pipeline. They show a destination `id` with the state `holding`. */
function standIn(id: string, reason: () => string, reported: Reported, config: Config, log: Logger): Servers {
  const reports = {
    ...reported,
    destinations: () => [{ id, state: 'holding', reason: reason(), ownReason: reason() }],
    page: () => servers.pageState,
  }
  const page = { reports, pipeline: NOTHING, config: () => config, clock: systemClock }
  const servers: Servers = new Servers(reports, log, page)
  return servers
}

/**
 * Calls `build`. If that fails because a file in data_dir cannot be read, reports the failure (log, /readyz, status)
 * and retries. Resolves with undefined if a signal ends the wait.
 */
export async function whenReadable<T>(build: () => Promise<T>, runtime: Runtime): Promise<T | undefined> {
  try {
    return await build()
  } catch (error) {
    if (!(error instanceof StateUnreadable)) throw error
    return await hold(build, error, runtime)
  }
}

async function hold<T>(build: () => Promise<T>, first: StateUnreadable, runtime: Runtime): Promise<T | undefined> {
  const { config, metrics, connections, systemd, managed, log } = runtime
  let reason = ''
  const report = ({ code, file, message }: StateUnreadable) => {
    if (reason === message) return
    reason = message
    managed?.held(message)
    log.error({ code, file, error: message }, 'cannot read a file in data_dir; waiting and trying again')
  }
  report(first)
  const reports = { metrics, connections, ...(managed && { managed: managed.report }) }
  const servers = standIn('data_dir', () => reason, reports, config, log)
  systemd.follow({ state: () => ({ ready: true, status: statusLine(`holds: ${reason}`) }) })
  const backoff = new Backoff(RETRY_FIRST_MS, RETRY_MAX_MS, systemRandom)
  try {
    await servers.open(config, NOTHING)
    for (;;) {
      const stopping = new AbortController()
      const signals = onSignals({ stop: () => stopping.abort() }, config.shutdownTimeoutMs, log, 'ending')
      await sleep(RETRY_FIRST_MS + backoff.next(), stopping.signal)
      // Signals that arrive while `build` runs are held until a handler is set again.
      signals.remove()
      if (stopping.signal.aborted) return undefined
      try {
        const built = await build()
        log.info('data_dir can be read again')
        return built
      } catch (error) {
        if (!(error instanceof StateUnreadable)) throw error
        report(error)
      }
    }
  } finally {
    servers.close()
  }
}

interface Waiting extends Pick<ReloadOrigin, 'applied' | 'files'> {
  readonly local: Config
  /** Reads the local part of the configuration; throws ConfigError. */
  readonly readLocal: () => Promise<ManagedConfig>
  readonly report: () => ManagedReport
  readonly systemd: Systemd
  readonly log: Logger
}

/**
 * Resolves with the configuration with which a managed daemon starts. Until a revision can run, the daemon serves its
 * metrics and socket, and accepts reloads of the local part. If a signal ends the wait, resolves with undefined.
 */
export async function waitForRevision(managed: ManagedPipeline, around: Waiting): Promise<Config | undefined> {
  const { local, readLocal, applied, files, report, systemd, log } = around
  const stopping = new AbortController()
  const signals = onSignals({ stop: () => stopping.abort() }, local.shutdownTimeoutMs, log, 'ending')
  const reason = () => managed.waitsFor ?? `waiting for ${report().service}`
  systemd.follow({
    state: () => ({
      ready: managed.waitsFor !== undefined,
      status: statusLine(`waiting for a revision to run: ${reason()}`),
    }),
  })
  const metrics = new Metrics(log)
  const connections = serverConnections(metrics, log)
  const servers = standIn('pipeline', reason, { metrics, connections, managed: report }, local, log)
  let next: ManagedConfig | undefined
  const reloads: ReloadOrigin = {
    read: async () => {
      next = await readLocal()
      return next.local
    },
    applied: config => {
      applied(config)
      managed.retry(next!)
    },
    files,
    texts: {
      done: 'local configuration reloaded; trying the published revision',
      failed: 'cannot apply the local configuration; keeping the current one',
    },
  }
  const pipeline = {
    config: local,
    isStopping: false,
    hasStarted: true,
    async replace({ dataDir }: Config) {
      if (dataDir !== local.dataDir)
        throw new Error('data_dir can only be changed by a restart; the current one is still in use')
    },
  }
  let stop = async () => {}
  const waiting = async () => {
    managedMetrics(metrics, report)
    const help = 'Whether all destinations are ready and no source is waiting for an operator.'
    metrics.daemonGauge('sluice_ready', help, () => 0)
    await servers.open(local, NOTHING)
    stop = onReload(reloads, pipeline, servers, metrics, log, systemd).stop
  }
  let config: Config | undefined
  try {
    config = await Promise.race([managed.first(stopping.signal, waiting), signals.second.then(() => undefined)])
  } finally {
    await stop()
    signals.remove()
    servers.close()
  }
  // If a signal arrived while a revision was requested or tried, the daemon does not start.
  return stopping.signal.aborted ? undefined : config
}
