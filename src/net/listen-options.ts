import { z } from 'zod'
import { duration, listenAddress, refuse } from '../core/options/options.js'
import { filePath, reaches } from '../core/options/reach.js'
import { isAddressOrRange } from '../lib/network/address-list.js'
import type { ListenAddress } from '../lib/network/inherited-sockets.js'
import { isLoopback } from './urls.js'

/** The options of servers. They have a separate module so that reading a configuration does not load the servers. */

export function addressRange() {
  return reaches(
    'nothing',
    z.string().superRefine((text, context) => {
      if (!isAddressOrRange(text)) refuse(context, 'must be an address or a range of addresses, as in 10.0.0.0/8', true)
    }),
  )
}

/** Options of every server that is reachable over the network. */
export const connectionOptions = (max: number, most: number) => ({
  max_connections: z
    .int()
    .min(1)
    .max(most)
    .default(max)
    .describe(
      'Limit of open connections. A further connection replaces a connection that has not sent a complete message or request. Over HTTP, it can also replace the connection that has been idle for the longest time. If no connection can be replaced, the further connection is refused.',
    ),
  max_connections_per_address: z
    .int()
    .min(1)
    .max(most)
    .optional()
    .describe(
      'Limit of open connections per address (IPv6: per /64 network). Default: half of max_connections. See shared_addresses.',
    ),
  shared_addresses: z
    .array(addressRange())
    .default([])
    .describe(
      'Addresses and ranges that many clients share, such as the addresses of a reverse proxy or a gateway: max_connections_per_address does not apply to them.',
    ),
})

export interface ConnectionOptions {
  readonly max_connections: number
  readonly max_connections_per_address?: number | undefined
  readonly shared_addresses: readonly string[]
  readonly handshake_timeout: number
}

export const serverTlsOptions = z.strictObject({
  cert_file: filePath().describe('Certificate (PEM), followed by the intermediate certificates.'),
  key_file: filePath().describe('Private key (PEM) of the certificate.'),
  client_ca_file: filePath()
    .optional()
    .describe('Certificates (PEM) of authorities: only clients with a certificate from one of them may connect.'),
})
export type TlsFileOptions = z.output<typeof serverTlsOptions>

/** Options of every source to which clients connect. */
export const listenOptions = {
  listen: listenAddress().describe(
    'HOST:PORT to listen on; 127.0.0.1 can only be reached from this machine, 0.0.0.0 from everywhere. Or systemd:NAME, the socket of a .socket unit with FileDescriptorName=NAME: connections wait while the daemon restarts, and ports below 1024 need no privilege.',
  ),
  tls: serverTlsOptions.optional().describe('Enables TLS. Replaced files are used within a minute.'),
  handshake_timeout: duration().prefault('10 Seconds').describe('Time limit of the TLS handshake.'),
  ...connectionOptions(1000, 100_000),
}

/** Whether it is certain that only this machine can reach the address. */
export function isLocal(address: ListenAddress): boolean {
  return 'host' in address && isLoopback(address.host)
}
