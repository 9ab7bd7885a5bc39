import { COLON, POINT } from './ascii.js'

/** Reads IP addresses from bytes. An IPv4 address is read as the IPv6 address to which it is mapped. */

/** `ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255` */
const LONGEST = 45
const GROUPS = 8
const MAPPED = 0xffff
/** Bits before the IPv4 address in a mapped address. */
const MAPPED_BITS = 96

/** The value of each hexadecimal digit; 16 for other characters. */
const HEX_VALUE = new Uint8Array(256).fill(16)
for (let value = 0; value < 16; value++) {
  const digit = value.toString(16)
  HEX_VALUE[digit.charCodeAt(0)] = value
  HEX_VALUE[digit.toUpperCase().charCodeAt(0)] = value
}

/** The groups of the address that was read last. */
export const groups = new Uint16Array(GROUPS)

export interface AddressRange {
  readonly groups: Uint16Array
  /** For each group: a mask of the bits that are equal in all addresses of the range. */
  readonly masks: Uint16Array
  /** Whether the range contains only IPv4 addresses, even if it is written with mapped IPv6 addresses. */
  readonly isIPv4: boolean
}

/** Reads [start, end) into `groups`. Returns 4 or 6 for the notation, or 0 for other text. Does not read zones. */
export function readAddress(b: Uint8Array, start: number, end: number): 0 | 4 | 6 {
  if (end - start > LONGEST) return 0
  const v4 = readIPv4(b, start, end)
  if (v4 < 0) return readIPv6(b, start, end) ? 6 : 0
  // Faster than `fill`.
  groups[0] = groups[1] = groups[2] = groups[3] = groups[4] = 0
  groups[5] = MAPPED
  groups[6] = v4 >>> 16
  groups[7] = v4
  return 4
}

/** Parses a range, or an address as a range of one; undefined if it is neither. Ignores bits after the prefix. */
export function parseRange(text: string): AddressRange | undefined {
  const [address = '', prefix, ...more] = text.split('/')
  const bytes = Buffer.from(address)
  const family = readAddress(bytes, 0, bytes.length)
  const before = family === 4 ? MAPPED_BITS : 0
  const length = prefix === undefined ? 128 - before : /^\d{1,3}$/.test(prefix) ? Number(prefix) : Number.NaN
  if (family === 0 || more.length > 0 || !(length <= 128 - before)) return undefined
  const bits = before + length
  const masks = groups.map((_, n) => 0xffff << (16 - Math.min(16, Math.max(0, bits - n * 16))))
  return { groups: groups.slice(), masks, isIPv4: isMapped(groups) && bits >= MAPPED_BITS }
}

/** Whether this is an IPv4 address, mapped or not. */
export function isMapped(groups: Uint16Array): boolean {
  return (groups[0]! | groups[1]! | groups[2]! | groups[3]! | groups[4]!) === 0 && groups[5] === MAPPED
}

/** Returns the address [start, end) as a number; -1 if it is invalid. Octets are decimal, without leading zeros. */
function readIPv4(b: Uint8Array, start: number, end: number): number {
  let address = 0
  let octets = 0
  for (let p = start; ; p++) {
    const first = p
    let octet = 0
    while (p < end && p - first < 3 && b[p]! >= 0x30 && b[p]! <= 0x39) octet = octet * 10 + b[p++]! - 0x30
    if (p === first || octet > 255 || (p - first > 1 && b[first] === 0x30)) return -1
    address = address * 256 + octet
    if (++octets === 4) return p === end ? address : -1
    if (p === end || b[p] !== POINT) return -1
  }
}

function readIPv6(b: Uint8Array, start: number, end: number): boolean {
  let p = start
  let count = 0
  /** Number of groups before the `::`; -1 if there is none. */
  let gap = -1
  if (end - p >= 2 && b[p] === COLON) {
    if (b[p + 1] !== COLON) return false
    gap = 0
    p += 2
  }
  while (p < end) {
    if (count === GROUPS) return false
    const first = p
    let group = 0
    while (p < end && p - first < 4 && HEX_VALUE[b[p]!]! < 16) group = group * 16 + HEX_VALUE[b[p++]!]!
    if (p === first) return false
    if (p < end && b[p] === POINT) {
      const address = count <= 6 ? readIPv4(b, first, end) : -1
      if (address < 0) return false
      groups[count++] = address >>> 16
      groups[count++] = address
      break
    }
    groups[count++] = group
    if (p === end) break
    if (b[p++] !== COLON || p === end) return false
    if (b[p] === COLON) {
      if (gap >= 0) return false
      gap = count
      p++
    }
  }
  if (gap < 0) return count === GROUPS
  if (count === GROUPS) return false
  groups.copyWithin(GROUPS - (count - gap), gap, count)
  groups.fill(0, gap, GROUPS - (count - gap))
  return true
}
