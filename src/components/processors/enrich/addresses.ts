import { groups, isMapped, parseRange, readAddress } from '../../../lib/formats/ip-address.js'

/** IP addresses as text whose order is that of the addresses. An IPv4-mapped IPv6 address is the IPv4 address. */

/** The first and the last key of a range. */
export interface KeyRange<K> {
  readonly low: K
  readonly high: K
}

/** Undefined: `text` is no address. */
export function addressKey(text: string): string | undefined {
  const bytes = Buffer.from(text)
  return readAddress(bytes, 0, bytes.length) === 0 ? undefined : keyOf(groups)
}

/** The keys of a range such as `10.0.0.0/8`, or of an address alone; undefined: `text` is neither. */
export function cidrKeys(text: string): KeyRange<string> | undefined {
  const range = parseRange(text)
  // A range that has mapped addresses and others has no keys of its own.
  if (!range || (!range.isIPv4 && isMapped(range.groups))) return undefined
  const { masks } = range
  const low = range.groups.map((group, n) => group & masks[n]!)
  const high = range.groups.map((group, n) => group | ~masks[n]!)
  return { low: keyOf(low), high: keyOf(high) }
}

function keyOf(groups: Uint16Array): string {
  const isIPv4 = isMapped(groups)
  let key = isIPv4 ? '4' : '6'
  for (let n = isIPv4 ? 6 : 0; n < groups.length; n++) key += (0x10000 + groups[n]!).toString(16).slice(1)
  return key
}
