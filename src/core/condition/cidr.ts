import { groups, parseRange, readAddress } from '../../lib/formats/ip-address.js'

/**
 * Tests IP addresses in CIDR ranges. An IPv4-mapped IPv6 address (`::ffff:10.0.0.1`) is in ranges of both families; a plain
 * IPv4 address only in ranges of IPv4, including `::ffff:10.0.0.0/104`.
 */

/** Whether the bytes [start, end) are the text of an address in the range. */
export type AddressTest = (bytes: Uint8Array, start: number, end: number) => boolean

/** Parses a range such as `10.0.0.0/8`; undefined if invalid. Bits after the prefix are ignored. */
export function parseCidr(text: string): AddressTest | undefined {
  const range = isAddress(text) ? undefined : parseRange(text)
  if (!range) return undefined
  const { masks, isIPv4 } = range
  const network = range.groups
  return (b, start, end) => {
    const family = readAddress(b, start, end)
    if (family === 0 || (family === 4 && !isIPv4)) return false
    // The groups before those of an IPv4 address are the same in all of them.
    for (let n = family === 4 ? 6 : 0; n < 8; n++) if (((groups[n]! ^ network[n]!) & masks[n]!) !== 0) return false
    return true
  }
}

/** Whether `text` is an address without a prefix. */
export function isAddress(text: string): boolean {
  const bytes = Buffer.from(text)
  return readAddress(bytes, 0, bytes.length) !== 0
}
