import type { Logger } from 'pino'
import type { ServiceOptions } from '../../engine/config/service-options.js'
import type { Metrics } from '../../engine/run/measure/metrics.js'
import type { ConnectionLimits } from '../../net/limits.js'
import { ConnectionReport } from '../../net/limits.js'
import { boundConnections } from '../../net/listen.js'

/** The bounds for the connections of the service, with their metrics. */
export function serviceConnections(
  options: Omit<ServiceOptions, 'plugins'>,
  metrics: Metrics,
  log: Logger,
): ConnectionLimits {
  const report = new ConnectionReport('sluice_api', (...about) => metrics.daemonCounter(...about), log)
  const shared = [...options.shared_addresses, ...options.trusted_proxies]
  const connections = boundConnections({ ...options, shared_addresses: shared }, report, options)
  metrics.daemonGauge('sluice_api_connections', 'Open connections.', () => connections.size)
  return connections
}
