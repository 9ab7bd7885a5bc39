import { z } from 'zod'
import { refuse } from '../../core/options/options.js'
import { reaches } from '../../core/options/reach.js'
import { AddressList, isAddressOrRange } from '../../lib/network/address-list.js'
import { type ConnectionEvents, Connections } from './connections.js'

/** An address or a range of addresses. */
export function addressRange() {
  return reaches(
    'nothing',
    z.string().superRefine((text, context) => {
      if (!isAddressOrRange(text)) refuse(context, 'must be an address or a range of addresses, as in 10.0.0.0/8', true)
    }),
  )
}

/** Returns a test for whether an address is in one of the ranges. */
export function addressTest(ranges: readonly string[]): (address: string) => boolean {
  const list = new AddressList(ranges)
  return address => list.has(address)
}

/** Options of every server that is reachable over the network. */
export const connectionOptions = (max: number, most: number) => ({
  max_connections: z
    .int()
    .min(1)
    .max(most)
    .default(max)
    .describe(
      'Limit of open connections. A further connection replaces one that has not sent anything complete or, over HTTP, the one that has been idle for the longest time. If there is none, it is refused.',
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
      'Addresses and ranges that many clients share, such as those of a reverse proxy or a gateway: max_connections_per_address does not apply to them.',
    ),
})

export interface ConnectionOptions {
  readonly max_connections: number
  readonly max_connections_per_address?: number | undefined
  readonly shared_addresses: readonly string[]
  readonly handshake_timeout: number
}

/** How long a client may keep its side of a connection open after the last response. */
const CLOSE_MS = 2000

/** Limits the connections of a server. `http` is missing for a server without requests, which may need idle ones. */
export function boundConnections(
  options: ConnectionOptions,
  events: ConnectionEvents,
  http?: { readonly headers_timeout: number; readonly send_timeout: number },
): Connections {
  const { max_connections: max, max_connections_per_address: own, shared_addresses: shared } = options
  const bounds = http && { sendMs: http.send_timeout, closeMs: Math.min(CLOSE_MS, http.headers_timeout) }
  const isShared = addressTest(shared)
  const handshakeMs = options.handshake_timeout
  return new Connections(
    { max, maxPerAddress: perAddress(max, own), isShared, handshakeMs, closesUsed: http !== undefined, ...bounds },
    events,
  )
}

/** The default of `max_connections_per_address`. */
export const perAddress = (max: number, given: number | undefined): number => given ?? Math.max(1, Math.ceil(max / 2))
