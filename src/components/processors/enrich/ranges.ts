import { groups, isMapped, parseRange, readAddress } from '../../../lib/formats/ip-address.js'

interface KeyRange<K> {
  readonly low: K
  readonly high: K
}

export interface RowRange<K> extends KeyRange<K> {
  readonly row: number
  readonly line: number
}

/**
 * A set of ranges. If two of these ranges overlap, one of them contains the other. The smallest range that contains a
 * key applies to the key.
 */
export class Ranges<K extends string | number> {
  readonly #ranges: readonly RowRange<K>[]
  /** For each range, the index of the smallest other range that contains this range, or -1. */
  readonly #around: Int32Array

  private constructor(ranges: readonly RowRange<K>[], around: Int32Array) {
    this.#ranges = ranges
    this.#around = around
  }

  /** Creates the ranges. If two are equal, or overlap although neither contains the other, returns only these two. */
  static of<K extends string | number>(given: readonly RowRange<K>[]): Ranges<K> | readonly [RowRange<K>, RowRange<K>] {
    // If two ranges have the same beginning, the larger range comes first.
    const ranges = given.toSorted((a, b) =>
      a.low !== b.low ? (a.low < b.low ? -1 : 1) : a.high !== b.high ? (a.high > b.high ? -1 : 1) : 0,
    )
    const around = new Int32Array(ranges.length).fill(-1)
    for (let n = 1, open = 0; n < ranges.length; open = n++) {
      const { low, high } = ranges[n]!
      while (open >= 0 && ranges[open]!.high < low) open = around[open]!
      const outer = ranges[open]
      if (outer && (outer.high < high || (outer.low === low && outer.high === high))) return [outer, ranges[n]!]
      around[n] = open
    }
    return new Ranges(ranges, around)
  }

  /** The row of the smallest range that contains `key`, or -1 if no range does. */
  find(key: K): number {
    const ranges = this.#ranges
    let from = 0
    let to = ranges.length
    while (from < to) {
      const middle = (from + to) >> 1
      if (ranges[middle]!.low <= key) from = middle + 1
      else to = middle
    }
    let n = from - 1
    while (n >= 0 && ranges[n]!.high < key) n = this.#around[n]!
    return n < 0 ? -1 : ranges[n]!.row
  }
}

/**
 * Returns a key for an IP address; undefined: `text` is not an address. Keys sort like their addresses. An IPv4-mapped
 * IPv6 address has the key of its IPv4 address.
 */
export function addressKey(text: string): string | undefined {
  const bytes = Buffer.from(text)
  return readAddress(bytes, 0, bytes.length) === 0 ? undefined : keyOf(groups)
}

/** Returns the keys of a range such as `10.0.0.0/8`, or of a single address; undefined: `text` is neither. */
export function cidrKeys(text: string): KeyRange<string> | undefined {
  const range = parseRange(text)
  // A range that contains both IPv4-mapped and other addresses does not have keys.
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
