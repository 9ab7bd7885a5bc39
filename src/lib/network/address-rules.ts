import { isIPv4, isIPv6 } from 'node:net'
import { networkInterfaces } from 'node:os'
import { AddressList } from './address-list.js'

/** Some users must not reach this machine's network. Decides to which addresses this process may connect for them. */

/** Throws if `text` is neither an address nor a range. */
const listOf = (text: string) => new AddressList([text])

/** Matches `10.0.0.0/8`, `::1`, `127.0.0.1:9000` and `[fd00::/8]:443`. */
const RULE = /^(?:\[([^\]]+)\]|([^[\]]*?))(?::(\d{1,5}))?$/

/** The ranges that IANA reserves for special purposes. Messages describe an address by the name of its range. */
const IPV4_RANGES: readonly (readonly [range: string, name: string])[] = [
  ['0.0.0.0/8', 'an unspecified address'],
  ['10.0.0.0/8', 'a private address'],
  ['100.64.0.0/10', 'an address of carrier-grade NAT'],
  ['127.0.0.0/8', 'a loopback address'],
  // The agent of virtual machines on Azure is served at this public address.
  ['168.63.129.16/32', 'an address of the cloud platform'],
  ['169.254.0.0/16', 'a link-local address'],
  ['172.16.0.0/12', 'a private address'],
  ['192.0.0.0/24', 'a reserved address'],
  ['192.0.2.0/24', 'a reserved address'],
  ['192.88.99.0/24', 'a reserved address'],
  ['192.168.0.0/16', 'a private address'],
  ['198.18.0.0/15', 'a reserved address'],
  ['198.51.100.0/24', 'a reserved address'],
  ['203.0.113.0/24', 'a reserved address'],
  ['224.0.0.0/4', 'a multicast address'],
  ['240.0.0.0/4', 'a reserved address'],
]
/** If an address is in several of these ranges, the first of them gives the name. */
const IPV6_RANGES: readonly (readonly [range: string, name: string])[] = [
  ['::/128', 'an unspecified address'],
  ['::1/128', 'a loopback address'],
  ['fc00::/7', 'a private address'],
  ['fe80::/10', 'a link-local address'],
  ['fec0::/10', 'a private address'],
  ['ff00::/8', 'a multicast address'],
  // A 6to4 or Teredo address leads to an IPv4 address that anyone may have chosen.
  ['2001::/23', 'a reserved address'],
  ['2001:db8::/32', 'a reserved address'],
  ['2002::/16', 'a 6to4 address'],
  ['3fff::/20', 'a reserved address'],
]
/** IPv6 addresses outside of this range are not public. */
const GLOBAL_UNICAST = listOf('2000::/3')
const NAT64 = listOf('64:ff9b::/96')

const DENIED = [...IPV4_RANGES, ...IPV6_RANGES].map(([range, name]) => ({ list: listOf(range), name }))

interface Allowed {
  readonly list: AddressList
  /** Undefined: all ports are allowed, except those on which this service itself listens. */
  readonly port: number | undefined
}

export class AddressRules {
  readonly #allowed: readonly Allowed[]
  readonly #ownPorts: () => readonly number[]

  /** `ownPorts`: the ports on which this process listens. Only a rule that names such a port allows it. */
  constructor(allowed: readonly string[], ownPorts: () => readonly number[] = () => []) {
    this.#allowed = allowed.map(text => parseRule(text)!)
    this.#ownPorts = ownPorts
  }

  /** Returns why connecting to `address` is denied, as in `a loopback address`; undefined if it is allowed. */
  denied(address: string, port: number): string | undefined {
    const kind = this.#kindOf(address)
    if (kind === undefined) return undefined
    const own = this.#ownPorts().includes(port)
    const allowed = this.#allowed.some(
      rule => rule.list.has(address) && (rule.port === undefined ? !own : rule.port === port),
    )
    return allowed ? undefined : own ? `${kind}, where this service itself listens` : kind
  }

  #kindOf(address: string): string | undefined {
    const plain = withoutPrefix(address)
    const found = DENIED.find(({ list }) => list.has(plain))
    if (found) return found.name
    if (!isIPv4(plain) && !GLOBAL_UNICAST.has(plain)) return 'a reserved address'
    return isOfThisMachine(plain) ? 'an address of this machine' : undefined
  }
}

/** Parses an address or a range, each with or without a port. Returns undefined for any other text. */
export function parseRule(text: string): Allowed | undefined {
  // Without brackets, the last group of an IPv6 address would look like a port.
  const match = isIPv6(text.replace(/\/\d+$/, '')) ? [text, text, undefined, undefined] : RULE.exec(text)
  const range = match?.[1] ?? match?.[2]
  const port = match?.[3] === undefined ? undefined : Number(match[3])
  if (range === undefined || (port !== undefined && (port < 1 || port > 65_535))) return undefined
  try {
    return { list: listOf(range), port }
  } catch {
    return undefined
  }
}

/** Removes a zone, and extracts an embedded IPv4 address (IPv4-mapped, NAT64). */
function withoutPrefix(text: string): string {
  const address = text.replace(/%.*$/, '')
  if (isIPv4(address)) return address
  // The URL parser normalizes IPv6 addresses, and writes an embedded IPv4 address as two groups.
  const written = URL.canParse(`http://[${address}]`) ? new URL(`http://[${address}]`).hostname.slice(1, -1) : address
  if (!written.startsWith('::ffff:') && !NAT64.has(written)) return written
  const [high = 0, low = 0] = lastGroups(written)
  return [high >> 8, high & 255, low >> 8, low & 255].join('.')
}

function lastGroups(address: string): number[] {
  const groups = address.split(':').slice(-2)
  return groups.map(group => (group === '' ? 0 : Number.parseInt(group, 16)))
}

function isOfThisMachine(address: string): boolean {
  return Object.values(networkInterfaces()).some(list => list?.some(one => withoutPrefix(one.address) === address))
}
