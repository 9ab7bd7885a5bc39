/**
 * Tests IP addresses in CIDR ranges, from bytes and without allocations. An IPv4-mapped IPv6 address
 * (`::ffff:10.0.0.1`) is in ranges of both families; a plain IPv4 address only in ranges of IPv4, including
 * `::ffff:10.0.0.0/104`.
 */

/** Whether the bytes [start, end) are the text of an address in the range. */
export type AddressTest = (bytes: Uint8Array, start: number, end: number) => boolean

const DOT = 0x2e
const COLON = 0x3a
/** `ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255` */
const LONGEST_ADDRESS = 45
/** Prefix length of the IPv6 range that maps IPv4. */
const MAPPED_BITS = 96

/** 0 to 15 for hexadecimal digits, 16 for other characters. */
const HEX_VALUE = new Uint8Array(256).fill(16)
for (let value = 0; value < 16; value++) {
  const digit = value.toString(16)
  HEX_VALUE[digit.charCodeAt(0)] = value
  HEX_VALUE[digit.toUpperCase().charCodeAt(0)] = value
}

/** The groups of the last IPv6 address read by `readIPv6`. */
const groups = new Uint16Array(8)

/** The address as a number; -1 unless [start, end) is four decimal octets without leading zeros. */
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
    if (p === end || b[p] !== DOT) return -1
  }
}

/** Reads [start, end) into `groups`; false if it is not an IPv6 address. Zones (`fe80::1%eth0`) are not accepted. */
function readIPv6(b: Uint8Array, start: number, end: number): boolean {
  let p = start
  let count = 0
  /** Number of groups before the `::`. */
  let gap = -1
  if (end - p >= 2 && b[p] === COLON) {
    if (b[p + 1] !== COLON) return false
    gap = 0
    p += 2
  }
  while (p < end) {
    if (count === 8) return false
    const first = p
    let group = 0
    while (p < end && p - first < 4 && HEX_VALUE[b[p]!]! < 16) group = group * 16 + HEX_VALUE[b[p++]!]!
    if (p === first) return false
    if (p < end && b[p] === DOT) {
      const address = count <= 6 ? readIPv4(b, first, end) : -1
      if (address < 0) return false
      groups[count++] = address / 0x10000
      groups[count++] = address % 0x10000
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
  if (gap < 0) return count === 8
  if (count === 8) return false
  groups.copyWithin(8 - (count - gap), gap, count)
  groups.fill(0, gap, 8 - (count - gap))
  return true
}

/** Whether `groups` contains an IPv4-mapped address. */
function isMapped(): boolean {
  return (groups[0]! | groups[1]! | groups[2]! | groups[3]! | groups[4]!) === 0 && groups[5] === 0xffff
}

function mappedAddress(): number {
  return groups[6]! * 0x10000 + groups[7]!
}

const CIDR = /^([^/]*)\/(\d{1,3})$/

/** Parses a range such as `10.0.0.0/8`; undefined if invalid. Bits after the prefix are ignored. */
export function parseCidr(text: string): AddressTest | undefined {
  const match = CIDR.exec(text)
  if (!match) return undefined
  const address = Buffer.from(match[1]!)
  const bits = Number(match[2])
  const v4 = readIPv4(address, 0, address.length)
  if (v4 >= 0) return bits <= 32 ? inIPv4(v4, bits) : undefined
  if (!readIPv6(address, 0, address.length) || bits > 128) return undefined
  return isMapped() && bits >= MAPPED_BITS ? inIPv4(mappedAddress(), bits - MAPPED_BITS) : inIPv6(bits)
}

/** Whether `text` is an address without a prefix. */
export function isAddress(text: string): boolean {
  const bytes = Buffer.from(text)
  return readIPv4(bytes, 0, bytes.length) >= 0 || readIPv6(bytes, 0, bytes.length)
}

function inIPv4(network: number, bits: number): AddressTest {
  // A shift by 32 has no effect.
  const mask = bits === 0 ? 0 : (-1 << (32 - bits)) | 0
  return (b, start, end) => {
    if (end - start > LONGEST_ADDRESS) return false
    let address = readIPv4(b, start, end)
    if (address < 0) {
      if (!readIPv6(b, start, end) || !isMapped()) return false
      address = mappedAddress()
    }
    return ((address ^ network) & mask) === 0
  }
}

function inIPv6(bits: number): AddressTest {
  const network = groups.slice()
  const masks = network.map((_, group) => {
    const covered = Math.min(16, Math.max(0, bits - group * 16))
    return 0xffff << (16 - covered)
  })
  return (b, start, end) => {
    if (end - start > LONGEST_ADDRESS || !readIPv6(b, start, end)) return false
    for (let group = 0; group < 8; group++) {
      if (((groups[group]! ^ network[group]!) & masks[group]!) !== 0) return false
    }
    return true
  }
}
