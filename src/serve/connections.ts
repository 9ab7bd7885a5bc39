import type { Logger } from 'pino'
import type { ServiceOptions } from '../config/service-options.js'
import type { Metrics } from '../engine/measure/metrics.js'
import { boundConnections } from '../http/server/addresses.js'
import { ConnectionReport } from '../http/server/connection-report.js'
import type { Connections } from '../http/server/connections.js'

/** The bounds for the connections of the service, with their metrics. */
export function serviceConnections(
  options: Omit<ServiceOptions, 'plugins'>,
  metrics: Metrics,
  log: Logger,
): Connections {
  const report = new ConnectionReport('sluice_api', (...about) => metrics.daemonCounter(...about), log)
  const shared = [...options.shared_addresses, ...options.trusted_proxies]
  const connections = boundConnections({ ...options, shared_addresses: shared }, report, options)
  metrics.daemonGauge('sluice_api_connections', 'Open connections.', () => connections.size)
  return connections
}
