import { AddressList } from '../../../lib/network/address-list.js'
import { type ConnectionEvents, Connections } from './connections.js'
import type { ConnectionOptions } from './listen-options.js'

/** Returns a test for whether an address is in one of the ranges. */
export function addressTest(ranges: readonly string[]): (address: string) => boolean {
  const list = new AddressList(ranges)
  return address => list.has(address)
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
