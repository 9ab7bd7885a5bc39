import { resolve } from 'node:path'
import type { Logger } from 'pino'
import { loadQuickly } from '../../components/named.js'
import { errorText } from '../../core/errors.js'
import type { Totals } from '../../core/status-document.js'
import { componentsOf } from '../../engine/config/inputs.js'
import type { Config } from '../../engine/config/load.js'
import { filesOf, readWithPlugins } from '../../engine/config/plugins/read-plugins.js'
import type { Engine } from '../../engine/run/engine.js'
import { Metrics } from '../../engine/run/measure/metrics.js'
import { noteHeld, totalsOf } from '../../engine/run/measure/totals.js'
import { INSPECT_MS, WaitWatch } from '../../engine/run/measure/waits.js'
import { type DataDirLock, lockDataDir } from '../../engine/run/state/data-dir.js'
import { warnIfExposed } from '../../engine/run/state/exposure.js'
import { Supervisor, type WentBack } from '../../engine/run/supervisor.js'
import { systemRandom } from '../../lib/backoff.js'
import { DiskReserve } from '../../lib/files/disk/disk-reserve.js'
import { inheritedSockets } from '../../lib/network/inherited-sockets.js'
import { after, every, systemClock } from '../../lib/time.js'
import { packageVersion } from '../../lib/version.js'
import { socketPath } from '../admin/socket.js'
import type { Io } from '../process/command-line.js'
import { EXIT } from '../process/dispatch.js'
import { type LogOptions, logMetrics, logNodeWarnings, logWarnings, openLog } from '../process/log.js'
import { onSignals } from '../process/signals.js'
import { onStdoutGone } from '../process/stdout-gone.js'
import { Rates } from '../status/rates.js'
import { isReady } from '../status/ready.js'
import { DaemonHealth } from '../systemd/service-state.js'
import { Systemd } from '../systemd/systemd.js'
import {
  type Managed,
  managedMetrics,
  orphanMetrics,
  reportUnsaved,
  serverConnections,
  tolerateFaultsOfPlugins,
} from './gauges.js'
import { onReload, type ReloadOrigin } from './reload.js'
import { Servers } from './servers.js'
import { whenReadable } from './wait.js'
import { filesOfModules, watchDataDir } from './watch.js'

const CHECK_MS = 10_000
/** Disk space that buffers leave to positions, in bytes. */
const MOST_RESERVED = 16 * 1024 * 1024
/**
 * The process begins to measure itself after at most this many milliseconds. By then, the daemon has usually shipped
 * its first events.
 */
const MEASURE_MS = 1000

export interface RunOptions {
  readonly configPath: string
  readonly metricsOnSocket?: boolean | undefined
  readonly follow?: Follow
  /** Log options that apply if the configuration does not set them. */
  readonly log?: LogOptions
}

export interface Running {
  readonly pipeline: Supervisor
  readonly metrics: Metrics
  readonly totals: () => Totals
  /** The problems in words, worst first, without problems of the service. */
  readonly problems: () => Promise<string[]>
  readonly waits: Pick<WaitWatch, 'all'>
  /** Undefined if metrics are not served. */
  readonly metricsUrl: string | undefined
  readonly pageUrl: string | undefined
}

/**
 * Called when everything is built, just before the run starts. When the run has ended, the returned function is called.
 */
export type Follow = (running: Running) => () => Promise<void>

export interface ConfigOrigin {
  readonly lock: DataDirLock
  readonly systemd: Systemd
  /** The configuration's path, as commands accept it. Undefined if the configuration is not a file on this machine. */
  readonly configPath?: string
  readonly reloads?: ReloadOrigin
  readonly follow?: Follow
  readonly managed?: Managed
  /** Called when a new configuration could not start and the previous one runs again. */
  readonly wentBack?: WentBack
}

/** Runs the daemon until its sources end or a signal ends it. Resolves with the exit code. */
export async function run(
  { configPath: path, metricsOnSocket, follow, log: usual }: RunOptions,
  io: Io,
): Promise<number> {
  let pluginFiles: readonly string[] = []
  let moduleFiles: readonly string[] = []
  const read = async () => {
    const source = await readWithPlugins(path, io.env)
    pluginFiles = filesOf(source.plugins)
    const config = await loadQuickly(source, { env: io.env, onThisMachine: true, metricsOnSocket })
    moduleFiles = filesOfModules(config)
    return config
  }
  const config = await read()
  const { log, setFormat } = openLog(io, { ...usual, format: config.logFormat ?? usual?.format })
  logNodeWarnings(log)
  logWarnings(log, config.warnings)
  const systemd = Systemd.from(io.env, { log })
  const lock = await lockDataDir(config.dataDir)
  try {
    warnIfExposed(log, config.dataDir)
    const applied = ({ logFormat }: Config) => setFormat(logFormat ?? usual?.format)
    const reloads = {
      read,
      applied,
      files: { path, digest: config.digest, others: () => [...pluginFiles, ...moduleFiles] },
    }
    const origin = { lock, systemd, reloads, configPath: resolve(path), ...(follow && { follow }) }
    return await runLocked(config, origin, log, io)
  } finally {
    lock.release()
  }
}

/** Runs a configuration whose data_dir the caller has locked. Resolves with the exit code. */
export async function runLocked(config: Config, origin: ConfigOrigin, log: Logger, io: Io): Promise<number> {
  const metrics = new Metrics(log)
  const { stdin, stdout } = io
  const disk = new DiskReserve(config.dataDir, MOST_RESERVED)
  const waits = new WaitWatch(log, systemClock)
  const around = { log, clock: systemClock, random: systemRandom, metrics, waits, stdin, stdout, disk }
  const wentBack: WentBack = (error, failed, back) => {
    log.error(
      { code: 'SLUICE_RELOAD_FAILED', error: errorText(error) },
      'the new configuration failed to start; the previous one is running again',
    )
    reloads?.wentBack(error, back)
    origin.wentBack?.(error, failed, back)
  }
  const { systemd, managed } = origin
  const startedAt = systemClock.wall()
  if (managed) managedMetrics(metrics, managed.report)
  const build = () => Supervisor.build(config, around, wentBack)
  const connections = serverConnections(metrics, log)
  const pipeline = await whenReadable(build, { config, metrics, connections, systemd, managed, log })
  if (!pipeline) {
    systemd.ending(0, 'ended')
    await systemd.close()
    return EXIT.done
  }
  const heldBefore = new Map<string, number>()
  pipeline.follow((_, config) => noteHeld(heldBefore, config, metrics.components))
  const totals = () =>
    totalsOf(pipeline.config, { components: metrics.components, heldBefore, underWay: pipeline.undelivered() })
  const subject = new DaemonHealth(pipeline, log)
  metrics.daemonGauge(
    'sluice_ready',
    'Whether all destinations are ready, no source is waiting for an operator, and the daemon is not stopping.',
    () => (!pipeline.isStopping && isReady(pipeline.states(), pipeline.failures(), pipeline.outages()) ? 1 : 0),
  )
  logMetrics(metrics)
  orphanMetrics(metrics, () => pipeline.orphans)
  const running = () => componentsOf(pipeline.config)
  const rates = new Rates(() => running().flatMap(({ id }) => metrics.components.get(id) ?? []))
  const reports = {
    components: running,
    destinations: () => pipeline.states(),
    failures: () => pipeline.failures(),
    outages: () => pipeline.outages(),
    waits: () => waits.all,
    isStopping: () => pipeline.isStopping,
    reloadingSince: () => pipeline.replacingSince,
    about: () => ({
      config: origin.configPath,
      config_hash: pipeline.config.digest,
      data_dir: pipeline.config.dataDir,
    }),
    rates,
    startedAt,
    totals,
    page: () => servers.pageState,
  }
  const problems = async () => {
    const { statusOf } = await import('../status/status.js')
    // For the service, whose readers may not see texts of events.
    return (await statusOf(reports, metrics, false)).problems.map(({ what }) => what)
  }
  const served = { ...reports, metrics, connections, ...(managed && { managed: managed.report }) }
  const page = { reports: served, pipeline, config: () => pipeline.config, clock: systemClock }
  const servers: Servers = new Servers(served, log, page)
  await servers.open(config, pipeline)
  const { dataDir } = config
  if (!config.metrics && !config.metricsGiven)
    log.info(
      { socket: socketPath(dataDir) },
      'metrics are served on the socket only; to serve them at an address, set metrics.listen',
    )
  const stopWatching = watchDataDir(origin.lock, dataDir, log, () => void servers.openSocket(dataDir, pipeline))
  const measured = after(MEASURE_MS, () => void metrics.measureProcess())
  const stopInspecting = every(INSPECT_MS, () => {
    if (pipeline.replacingSince === undefined && !pipeline.isStopping) waits.inspect(pipeline.flow())
  })
  const stopChecks = every(CHECK_MS, () => {
    metrics.checkConservation()
    rates.note()
  })
  const endFaults = tolerateFaultsOfPlugins(metrics, log)
  const timeout = () => pipeline.config.shutdownTimeoutMs
  const ended = untilStopped(pipeline, systemd, timeout)
  const signals = onSignals(ended, timeout, log)
  const reader = onStdoutGone(stdout, ended, pipeline, log)
  const reloads = origin.reloads && onReload(origin.reloads, pipeline, servers, metrics, log, systemd, subject)
  log.info({ version: packageVersion(), config: config.files, data_dir: config.dataDir }, 'started')
  const leave = origin.follow?.({
    pipeline,
    metrics,
    totals,
    problems,
    waits,
    metricsUrl: servers.metricsUrl,
    pageUrl: servers.pageUrl,
  })
  systemd.follow(subject)
  try {
    const forced = await Promise.race([pipeline.run().then(() => false), signals.second.then(() => true)])
    metrics.checkConservation()
    if (!forced) await leave?.()
    const unsaved = reportUnsaved(pipeline.unsaved, log)
    log.info(totals(), forced ? 'ended at once by a second signal' : 'ended')
    return forced || unsaved || reader.gone() || pipeline.failed ? EXIT.failed : EXIT.done
  } finally {
    signals.remove()
    endFaults()
    reader.remove()
    void reloads?.stop()
    stopInspecting()
    stopChecks()
    measured()
    stopWatching()
    servers.close()
    systemd.ending(0, 'ended')
    await systemd.close()
  }
}

/** Extends `stop`, so that it also notifies systemd that the daemon is stopping. */
function untilStopped(engine: Pick<Engine, 'stop'>, systemd: Systemd, timeout: () => number): Pick<Engine, 'stop'> {
  return {
    stop(deadline) {
      inheritedSockets().stopAccepting()
      systemd.ending(timeout(), 'stopping: delivering events that were read')
      engine.stop(deadline)
    },
  }
}
