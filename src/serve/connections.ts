import type { Logger } from 'pino'
import type { ServiceOptions } from '../config/service-options.js'
import type { Metrics } from '../engine/metrics.js'
import { addressTest, perAddress } from '../http/server/addresses.js'
import { ConnectionReport } from '../http/server/connection-report.js'
import { Connections } from '../http/server/connections.js'

/** How long a client may keep its side of a connection open after the last answer. */
const CLOSE_MS = 2000

type Bounds = Pick<
  ServiceOptions,
  | 'max_connections'
  | 'max_connections_per_address'
  | 'shared_addresses'
  | 'trusted_proxies'
  | 'handshake_timeout'
  | 'headers_timeout'
  | 'send_timeout'
>

/** The bounds for the connections of the service, with their metrics. */
export function serviceConnections(options: Bounds, metrics: Metrics, log: Logger): Connections {
  const { max_connections: max, max_connections_per_address: most } = options
  const connections = new Connections(
    {
      max,
      maxPerAddress: perAddress(max, most),
      isShared: addressTest([...options.shared_addresses, ...options.trusted_proxies]),
      handshakeMs: options.handshake_timeout,
      sendMs: options.send_timeout,
      closeMs: Math.min(CLOSE_MS, options.headers_timeout),
      closesUsed: true,
    },
    new ConnectionReport('sluice_api', (...about) => metrics.daemonCounter(...about), log),
  )
  metrics.daemonGauge('sluice_api_connections', 'Open connections.', () => connections.size)
  return connections
}
