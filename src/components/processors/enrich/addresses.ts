import { isIPv4, isIPv6 } from 'node:net'

/** IP addresses as text whose order is that of the addresses. An IPv4-mapped IPv6 address is the IPv4 address. */

const V4_BITS = 32n
const V6_BITS = 128n
const MAPPED = 0xffffn << V4_BITS
const RANGE = /^(.+)\/(\d{1,3})$/

interface Address {
  readonly value: bigint
  readonly bits: bigint
}

/** The first and the last key of a range. */
export interface KeyRange<K> {
  readonly low: K
  readonly high: K
}

/** Undefined: `text` is no address. */
export function addressKey(text: string): string | undefined {
  const address = addressOf(text)
  return address && keyOf(address)
}

/** The keys of a range such as `10.0.0.0/8`, or of an address alone; undefined: `text` is neither. */
export function cidrKeys(text: string): KeyRange<string> | undefined {
  const [, base = text, prefix] = RANGE.exec(text) ?? []
  const address = addressOf(base)
  if (!address) return undefined
  const written = isIPv4(base) ? V4_BITS : V6_BITS
  const length = prefix === undefined ? written : BigInt(prefix)
  // The prefix of a mapped address counts from the beginning of the IPv6 address.
  const free = written - length
  if (length > written || free > address.bits) return undefined
  const low = (address.value >> free) << free
  const high = low | ((1n << free) - 1n)
  return { low: keyOf({ ...address, value: low }), high: keyOf({ ...address, value: high }) }
}

function keyOf({ value, bits }: Address): string {
  return bits === V4_BITS ? `4${value.toString(16).padStart(8, '0')}` : `6${value.toString(16).padStart(32, '0')}`
}

function addressOf(text: string): Address | undefined {
  if (isIPv4(text)) return { value: v4(text), bits: V4_BITS }
  if (!isIPv6(text) || text.includes('%')) return undefined
  const value = v6(text)
  return value >> V4_BITS === MAPPED >> V4_BITS
    ? { value: value & 0xffffffffn, bits: V4_BITS }
    : { value, bits: V6_BITS }
}

function v4(text: string): bigint {
  return text.split('.').reduce((value, octet) => value * 256n + BigInt(octet), 0n)
}

/** A valid IPv6 address. */
function v6(text: string): bigint {
  const last = text.lastIndexOf(':') + 1
  const end = text.slice(last)
  const groups = end.includes('.')
    ? `${text.slice(0, last)}${(v4(end) >> 16n).toString(16)}:${(v4(end) & 0xffffn).toString(16)}`
    : text
  const [head = '', tail] = groups.split('::')
  const before = head === '' ? [] : head.split(':')
  const after = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? [] : Array<string>(8 - before.length - after.length).fill('0')
  return [...before, ...zeros, ...after].reduce((value, group) => value * 65536n + BigInt(`0x${group}`), 0n)
}
