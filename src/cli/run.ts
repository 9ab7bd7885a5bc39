import type { Server } from 'node:http'
import { type DestinationStream, type Logger, pino } from 'pino'
import { serveAdmin, serveSocket, type Told } from '../admin/server.js'
import { socketPath } from '../admin/socket.js'
import { components } from '../components.js'
import { type Config, loadConfig } from '../config/load.js'
import { errorText, formatProblem } from '../core/errors.js'
import { lockDataDir } from '../engine/data-dir.js'
import { Engine } from '../engine/engine.js'
import { Metrics } from '../engine/metrics.js'
import { systemRandom } from '../lib/backoff.js'
import { deadline, every, systemClock } from '../lib/time.js'
import { formatDuration } from '../lib/units.js'
import { packageVersion } from '../lib/version.js'
import type { Io } from './command-line.js'
import { EXIT } from './dispatch.js'

const CHECK_MS = 10_000

export type RunOptions = { readonly configPath: string } | { readonly config: Config }

/** The daemon, until its sources end or a signal ends it. Resolves with the exit code. */
export async function run(options: RunOptions, io: Io): Promise<number> {
  const config = 'config' in options ? options.config : loadConfig(options.configPath, { env: io.env, components })
  const log = createLog(io)
  for (const warning of config.warnings) log.warn({ place: formatProblem(warning) }, 'configuration warning')
  const lock = lockDataDir(config.dataDir)
  try {
    return await runLocked(config, log, io)
  } finally {
    lock.release()
  }
}

/** The log of the program: JSON lines on stderr. */
export function createLog(io: Pick<Io, 'stderr' | 'env'>): Logger {
  // Synchronous: the last lines before an exit are the ones that matter.
  const to = io.stderr === process.stderr ? pino.destination({ dest: 2, sync: true }) : (io.stderr as DestinationStream)
  const options = {
    level: io.env.SLUICE_LOG_LEVEL ?? 'info',
    base: { pid: process.pid },
    redact: ['key', '*.key', 'auth', '*.auth', 'authorization', '*.authorization'],
  }
  return pino(options, to)
}

async function runLocked(config: Config, log: Logger, io: Io): Promise<number> {
  const metrics = new Metrics(log)
  const { stdin, stdout, env } = io
  const engine = await Engine.build(config, {
    log,
    clock: systemClock,
    random: systemRandom,
    metrics,
    stdin,
    stdout,
    env,
  })
  metrics.daemonGauge('sluice_ready', 'Whether every destination is ready.', () => (isReady(engine) ? 1 : 0))
  const told = toldBy(metrics, engine)
  const servers = [await listen(config, told, log), await listenLocally(config, told, engine, log)]
  const stopChecks = every(CHECK_MS, () => void metrics.checkConservation())
  const signals = onSignals(engine, config.shutdownTimeoutMs, log)
  log.info({ version: packageVersion(), config: config.files, data_dir: config.dataDir }, 'started')
  try {
    const forced = await Promise.race([engine.run().then(() => false), signals.second.then(() => true)])
    metrics.checkConservation()
    log.info(totals(metrics, engine), forced ? 'ended at once by a second signal' : 'ended')
    return forced || engine.failed ? EXIT.failed : EXIT.done
  } finally {
    signals.remove()
    stopChecks()
    for (const server of servers) {
      server?.close()
      server?.closeAllConnections()
    }
  }
}

function isReady(engine: Engine): boolean {
  return engine.states().every(({ state }) => state === 'ready' || state === 'retrying' || state === 'stopped')
}

/** Everything that the daemon tells about itself. */
function toldBy(metrics: Metrics, engine: Engine): Told {
  return {
    metrics: () => metrics.render(),
    contentType: metrics.contentType,
    destinations: () => engine.states(),
  }
}

/** For the commands that look into the daemon. That it cannot be is no reason not to run. */
async function listenLocally(config: Config, told: Told, engine: Engine, log: Logger): Promise<Server | undefined> {
  const path = socketPath(config.dataDir)
  try {
    return await serveSocket(path, told, engine.taps)
  } catch (error) {
    log.info({ socket: path, error: errorText(error) }, 'sluice status, top and tap cannot reach this daemon')
    return undefined
  }
}

async function listen(config: Config, told: Told, log: Logger): Promise<Server | undefined> {
  if (!config.metrics) return undefined
  const { host, port } = config.metrics
  try {
    const server = await serveAdmin(config.metrics, told)
    const address = server.address()
    const bound = typeof address === 'object' && address ? address.port : port
    log.info({ url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}/metrics` }, 'metrics are served')
    return server
  } catch (error) {
    const taken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE'
    const hint = taken ? ': another program listens there; set metrics.listen to a free port' : ''
    throw new Error(`cannot serve metrics at ${host}:${port}${hint}`, { cause: error })
  }
}

/** The first SIGTERM or SIGINT ends the run in order; `second` resolves at the next. */
export function onSignals(
  engine: Pick<Engine, 'stop'>,
  timeoutMs: number,
  log: Logger,
  message = 'ending: sources stop, what was read is delivered',
): { second: Promise<void>; remove: () => void } {
  let leave = () => {}
  const second = new Promise<void>(resolve => {
    leave = resolve
  })
  let stopping: { clear: () => void } | undefined
  const onSignal = (signal: NodeJS.Signals) => {
    if (stopping) return leave()
    log.info({ signal, timeout: formatDuration(timeoutMs) }, message)
    const limit = deadline(timeoutMs)
    stopping = limit
    engine.stop(limit.signal)
  }
  process.on('SIGTERM', onSignal)
  process.on('SIGINT', onSignal)
  return {
    second,
    remove: () => {
      stopping?.clear()
      process.off('SIGTERM', onSignal)
      process.off('SIGINT', onSignal)
    },
  }
}

/** What became of all events of this run. */
function totals(metrics: Metrics, engine: Engine) {
  let received = 0
  let delivered = 0
  const discarded: Record<string, number> = {}
  for (const { kind, received: read, passed, discards } of metrics.components.values()) {
    if (kind === 'source') received += read.events
    if (kind === 'destination') delivered += passed.events
    for (const [reason, { events }] of discards) discarded[reason] = (discarded[reason] ?? 0) + events
  }
  return { received, passed: delivered, discarded, undelivered: engine.undelivered() }
}
