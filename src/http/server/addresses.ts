import { z } from 'zod'
import { refuse } from '../../core/options.js'
import { reaches } from '../../core/reach.js'
import { AddressList, isAddressOrRange } from '../../lib/address-list.js'

/** An address, or a range of addresses. */
export function addressRange() {
  return reaches(
    'nothing',
    z.string().superRefine((text, context) => {
      if (!isAddressOrRange(text)) refuse(context, 'must be an address or a range of addresses, as in 10.0.0.0/8', true)
    }),
  )
}

/** Whether an address is in one of the ranges. */
export function addressTest(ranges: readonly string[]): (address: string) => boolean {
  const list = new AddressList(ranges)
  return address => list.has(address)
}

/** Options of every server that is reached over the network. */
export const connectionOptions = (max: number, most: number) => ({
  max_connections: z
    .int()
    .min(1)
    .max(most)
    .default(max)
    .describe(
      'Connections open at a time. A further one takes the place of one over which nothing complete has come or, over HTTP, of the one that is idle for the longest time. Where there is none, it is refused.',
    ),
  max_connections_per_address: z
    .int()
    .min(1)
    .max(most)
    .optional()
    .describe(
      'Connections of one address at a time (of IPv6, of one /64 network). Without it: half of max_connections. See shared_addresses.',
    ),
  shared_addresses: z
    .array(addressRange())
    .default([])
    .describe(
      'Addresses and ranges that many clients share, such as those of a reverse proxy or of a gateway: max_connections_per_address is not for them.',
    ),
})

/** What `max_connections_per_address` is where it is not given. */
export const perAddress = (max: number, given: number | undefined): number => given ?? Math.max(1, Math.ceil(max / 2))
