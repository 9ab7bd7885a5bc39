import { randomBytes } from 'node:crypto'
import type { Server } from 'node:http'
import type { TlsOptions } from 'node:tls'
import type { Logger } from 'pino'
import { components } from '../../components/list.js'
import { ConfigError, errorText } from '../../core/errors.js'
import { serveAdmin } from '../../daemon/admin/server.js'
import type { Io } from '../../daemon/process/command-line.js'
import { EXIT } from '../../daemon/process/dispatch.js'
import { onHeldSignal } from '../../daemon/process/early-signals.js'
import { createLog, logMetrics, logNodeWarnings, logWarnings } from '../../daemon/process/log.js'
import { onSignals } from '../../daemon/process/signals.js'
import { serverConnections } from '../../daemon/run/gauges.js'
import { Systemd } from '../../daemon/systemd/systemd.js'
import { type Config, loadConfig } from '../../engine/config/load.js'
import { readWithPlugins } from '../../engine/config/plugins/read-plugins.js'
import type { ServiceOptions } from '../../engine/config/service-options.js'
import { Metrics } from '../../engine/run/measure/metrics.js'
import { warnIfExposed } from '../../engine/run/state/exposure.js'
import { shownPath } from '../../lib/files/shown-path.js'
import { inheritedSockets, listenOn } from '../../lib/network/inherited-sockets.js'
import { preload } from '../../lib/preload.js'
import { deferred, systemClock, within } from '../../lib/time.js'
import { formatDuration } from '../../lib/units.js'
import { packageVersion } from '../../lib/version.js'
import { closeServer, urlOf } from '../../net/http/server/bounded-server.js'
import { type ConnectionLimits, ConnectionReport } from '../../net/limits.js'
import { boundConnections, listening, REFUSED_TOTAL, ServerTls } from '../../net/listen.js'
import type { TlsFileOptions } from '../../net/listen-options.js'
import { expiryFact, TlsFilesError } from '../../net/tls.js'
import { RequestCounts } from '../api/http/sender.js'
import { SINGLE_NODE } from '../api/nodes.js'
import { LIMITS, type OpenService, openService } from '../api/open-service.js'
import type { Store } from '../api/store/store.js'
import { DISK_FULL } from '../ingest/account/account-disk.js'
import { IdempotencyKeys } from '../ingest/idempotency-keys.js'
import { missingPackages } from '../packages.js'
import { ServedIngest } from './ingest.js'
import { nodeMetrics, serviceMetrics, storeMetrics, storeReadiness } from './metrics.js'
import { componentsWith } from './service-plugins.js'

const NO_RELOAD = 'SIGHUP is ignored: the service reads its configuration only when it starts'
const CLOSE_MS = 5000
const APP = new URL('../api/http/app.js', import.meta.url)
/** The default address: one port above the daemon's. */
const USUAL_METRICS = { host: '127.0.0.1', port: 9599 }

type ServiceConfig = NonNullable<Config['service']>

/** Loads a configuration with a section `service`. Throws ConfigError if it has no such section. */
export async function loadServiceConfig(
  path: string,
  env: NodeJS.ProcessEnv,
): Promise<{ config: Config; options: ServiceConfig }> {
  const source = await readWithPlugins(path, env)
  const config = loadConfig(source, { env, components, serviceAlone: true })
  const { service } = config
  const message = service
    ? missingPackages(service.store)
    : 'is missing; the options of the service belong there, as in service: { listen: 127.0.0.1:8080 }'
  if (service && message === undefined) return { config, options: service }
  throw new ConfigError([{ file: config.files[0] ?? path, line: 1, column: 1, path: 'service', message: message! }])
}

/** Opens the store and, on top of it, the domain. Both use the clock and the random source of this machine. */
export async function openConfigured(
  options: ServiceConfig,
  log: Logger,
  { beside = false, metrics }: { readonly beside?: boolean; readonly metrics?: Metrics } = {},
): Promise<OpenService> {
  const { dataDir, store, limits, plugins } = options
  const known = await componentsWith(plugins)
  const machine = { clock: systemClock, random: randomBytes }
  const ofRedis = limits.redis && metrics?.component(LIMITS, 'processor', 'throttle')
  return await openService({ dataDir, store, limits, log, ...machine, components: known, beside, metrics: ofRedis })
}

/** Runs the service until a signal ends it. Resolves with the exit code. */
export async function serve({ configPath }: { configPath: string }, io: Io): Promise<number> {
  const { config, options } = await loadServiceConfig(configPath, io.env)
  const log = createLog(io, { format: config.logFormat })
  logNodeWarnings(log)
  logWarnings(log, config.warnings)
  // The service continues after an error on its standard output, since it does not write there.
  io.stdout.on('error', error => log.warn({ error: errorText(error) }, 'standard output cannot be written'))
  const systemd = Systemd.from(io.env, { log })
  systemd.follow({ state: () => ({ ready: false, status: 'opens its store' }) })
  try {
    const metrics = new Metrics(log)
    const opened = await openConfigured(options, log, { metrics })
    try {
      warnIfExposed(log, options.dataDir)
      return await serveOpened(config, options, opened, metrics, systemd, log)
    } finally {
      // A database that does not answer lets each step of the closing wait for a time limit of its own.
      const closed = opened.close().then(() => true)
      if (!(await within(CLOSE_MS, closed)))
        log.warn({ timeout: formatDuration(CLOSE_MS) }, 'ended before the store was closed, because it does not answer')
    }
  } finally {
    systemd.ending(0, 'ended')
    await systemd.close()
  }
}

async function serveOpened(
  config: Config,
  options: ServiceConfig,
  { service, state, nodes }: OpenService,
  metrics: Metrics,
  systemd: Systemd,
  log: Logger,
): Promise<number> {
  void metrics.measureProcess()
  logMetrics(metrics)
  const counts = new RequestCounts()
  const servers: Server[] = []
  const tls = options.tls && serviceTls(options.tls, metrics, log)
  const { secret } = state
  const ingest = new ServedIngest(service, options, {
    log,
    metrics,
    keys: await IdempotencyKeys.open(state.keys, { clock: systemClock, log, secret, nodes, isAlone: !nodes }),
    components: await componentsWith(options.plugins),
    ownPorts: () => portsOf(servers),
    shared: nodes && state.store,
  })
  if (nodes) nodes.events = () => ingest.buffered
  // Its packages may be missing, which the configuration decides.
  preload(APP)
  const { buildApp } = await import('../api/http/app.js')
  const app = await buildApp({
    service,
    ingest,
    log,
    counts,
    requestLog: options.request_log,
    maxBody: options.max_body,
    connections: serviceConnections(options, metrics, log),
    trustedProxies: options.trusted_proxies,
    headersMs: options.headers_timeout,
    requestMs: options.request_timeout,
    keepAliveMs: options.keep_alive_timeout,
    tls: tls && (await usableTls(tls, config)),
  })
  servers.push(app.server)
  let ending = false
  const { promise: left, resolve: leave } = deferred()
  const signals = onSignals(
    {
      stop(limit) {
        ending = true
        inheritedSockets().stopAccepting()
        systemd.ending(config.shutdownTimeoutMs, 'ending: requests in progress are answered')
        limit.addEventListener('abort', leave, { once: true })
        Promise.all([app.close(), ingest.stop(limit)]).then(leave, leave)
      },
    },
    config.shutdownTimeoutMs,
    log,
    'ending: no new requests are accepted, requests in progress are answered',
  )
  const ends: (() => void)[] = [signals.remove, onHeldSignal('SIGHUP', () => log.warn(NO_RELOAD))]
  // If another program started the service, the service ends when that program ends.
  if (process.connected) process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'))
  try {
    serviceMetrics(metrics, counts, service, () => !ending && state.store.health().readable)
    storeMetrics(metrics, state.store)
    nodeMetrics(metrics, nodes ?? SINGLE_NODE)
    if (tls) {
      tls.attach(app.server)
      ends.push(() => tls.stopRenewing())
    }
    const admin = await listenForMetrics(config, metrics, { store: state.store, ingest }, () => !ending, log)
    if (admin) {
      servers.push(admin)
      ends.push(() => closeServer(admin))
    }
    const address = options.listen
    if (!ending) {
      await listening(address, () => listenOn(app.server, address)).catch(error => {
        // If a signal arrives while the server starts to listen, the server is closed, so listening fails.
        if (!ending) throw error
      })
    }
    if (ending) {
      await left
      log.info('ended')
      return EXIT.done
    }
    const url = urlOf(tls ? 'https' : 'http', app.server, options.listen, '/v3')
    log.info({ version: packageVersion(), url, data_dir: options.dataDir }, 'the service is ready')
    // A restart of the service would not help while PostgreSQL does not respond.
    const goesOn = () => options.store.type === 'postgresql' || answers(state.store)
    systemd.follow({ state: () => ({ ready: true, status: `serves at ${url}` }), goesOn })
    if (!(await service.initialized())) log.warn('there are no keys yet: run sluice admin init --config FILE --json')
    // Starting an account's pipelines takes up to a second, so the service listens first: keys must be revocable at
    // once.
    const started = ingest.start().then(() => left)
    const forced = await Promise.race([
      started.then(() => false),
      left.then(() => false),
      signals.second.then(() => true),
    ])
    log.info(forced ? 'ended at once by a second signal' : 'ended')
    return forced ? EXIT.failed : EXIT.done
  } finally {
    closeServer(app.server)
    for (const end of ends) end()
    await app.close()
    await ingest.stop(AbortSignal.abort())
  }
}

/** Resolves with true if the store can read; otherwise rejects. */
async function answers(store: Store): Promise<boolean> {
  await store.get('SELECT id FROM enterprise LIMIT 1')
  return true
}

function portsOf(servers: readonly Server[]): number[] {
  return servers.flatMap(server => {
    const address = server.address()
    return typeof address === 'object' && address !== null ? [address.port] : []
  })
}

/** If the default address is unusable, starts without metrics. If a configured address is unusable, the start fails. */
async function listenForMetrics(
  config: Config,
  metrics: Metrics,
  { store, ingest }: { readonly store: Store; readonly ingest: ServedIngest },
  ready: () => boolean,
  log: Logger,
): Promise<Server | undefined> {
  if (!config.metrics) return undefined
  const address = config.metricsGiven ? config.metrics : USUAL_METRICS
  const full = () => (ingest.isDiskFull ? DISK_FULL : undefined)
  const reports = {
    metrics,
    connections: serverConnections(metrics, log),
    // A node that is not ready gets no requests from a load balancer.
    destinations: () => [
      { id: 'service', state: ready() ? 'ready' : 'ending', reason: undefined },
      storeReadiness(store),
      // The node stays ready, since its API still works, for example to revoke a key.
      { id: 'ingest', state: 'ready', reason: full(), ownReason: full() },
    ],
  }
  try {
    const server = await listening(address, () => serveAdmin(address, reports, log))
    log.info({ url: urlOf('http', server, address, '/metrics') }, 'metrics are served')
    return server
  } catch (error) {
    if (config.metricsGiven) throw error
    log.warn({ error: errorText(error) }, 'metrics are not served; set metrics.listen to serve them')
    return undefined
  }
}

function serviceTls(paths: TlsFileOptions, metrics: Metrics, log: Logger): ServerTls {
  let failed = 0
  const tls = new ServerTls(paths, { log, clock: systemClock, failed: () => failed++ })
  metrics.series('counter', REFUSED_TOTAL.name, REFUSED_TOTAL.help, () => tls.refusals.totals())
  metrics.fact(tls.refusals.fact)
  metrics.fact(expiryFact(() => tls.files.expiries))
  const help = 'Renewed TLS files of the service that could not be used.'
  metrics.daemonTotal('sluice_api_tls_renewal_errors_total', help, () => failed)
  return tls
}

/** Throws ConfigError if the files cannot be used. */
async function usableTls(tls: ServerTls, { files: [config = ''] }: Config): Promise<TlsOptions> {
  try {
    return await tls.load()
  } catch (error) {
    if (!(error instanceof TlsFilesError)) throw error
    throw new ConfigError(
      error.problems.map(({ option, file, message }) => ({
        ...{ file: config, line: 1, column: 1, path: `service.tls.${option}` },
        message: `${shownPath(file)} ${message}`,
      })),
    )
  }
}

function serviceConnections(options: Omit<ServiceOptions, 'plugins'>, metrics: Metrics, log: Logger): ConnectionLimits {
  const report = new ConnectionReport('sluice_api', (...about) => metrics.daemonCounter(...about), log)
  const shared = [...options.shared_addresses, ...options.trusted_proxies]
  const connections = boundConnections({ ...options, shared_addresses: shared }, report, options)
  metrics.daemonGauge('sluice_api_connections', 'Open connections.', () => connections.size)
  return connections
}
