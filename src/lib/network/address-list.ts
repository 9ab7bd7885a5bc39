import { BlockList, isIP, isIPv4 } from 'node:net'

const RANGE = /^([^/]+)\/(\d{1,3})$/

/** Whether `text` is an IP address, or a range such as `10.0.0.0/8`. */
export function isAddressOrRange(text: string): boolean {
  return new AddressList().tryAdd(text)
}

/** A set of IP addresses and ranges. An IPv4 address written as IPv6 (`::ffff:10.0.0.1`) matches IPv4 ranges. */
export class AddressList {
  readonly #list = new BlockList()

  /** Throws if an entry is neither an address nor a range. */
  constructor(ranges: readonly string[] = []) {
    for (const range of ranges) add(this.#list, range)
  }

  tryAdd(range: string): boolean {
    try {
      add(this.#list, range)
      return true
    } catch {
      return false
    }
  }

  /** Whether an address is in the set. Ignores a zone (`fe80::1%eth0`). False for text that is not an address. */
  has(address: string): boolean {
    const plain = address.replace(/%.*$/, '')
    return isIP(plain) !== 0 && this.#list.check(plain, familyOf(plain))
  }
}

function add(list: BlockList, text: string): void {
  const [, address = text, prefix] = RANGE.exec(text) ?? []
  if (address.includes('%')) throw new Error('a range cannot have a zone')
  if (prefix === undefined) list.addAddress(address, familyOf(address))
  else list.addSubnet(address, Number(prefix), familyOf(address))
}

const familyOf = (address: string) => (isIPv4(address) ? 'ipv4' : 'ipv6')
