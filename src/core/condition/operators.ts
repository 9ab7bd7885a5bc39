import { groups, parseRange, readAddress } from '../../lib/formats/ip-address.js'
import { orderOfEqual } from '../../lib/formats/json-numbers.js'
import { Pattern, PatternError } from '../../lib/pattern.js'
import {
  ARRAY_VALUE,
  BOOLEAN,
  type FieldReader,
  MISSING,
  NULL_VALUE,
  NUMBER,
  OBJECT_VALUE,
  parsedNumber,
  STRING_VALUE,
  type ValueKind,
} from '../event/field-reader.js'
import { compareText, hasText, isIn, standsAt } from './texts.js'

/**
 * The operators of conditions. They compare texts, case-sensitively. The text of a string is the string itself. The
 * text of a number or boolean is as String() formats it, but an integer keeps all its digits. A missing path, null, an
 * object or an array has no text and satisfies no comparison, not even `not_equal`. In contrast, `NOT .a equal 'x'`
 * holds for all events for which `.a equal 'x'` does not hold. `is_empty` requires a value, so a missing path or null is
 * not empty.
 *
 * If the value in the condition is a number, the ordering operators compare numbers, and a text that is not a number
 * satisfies none of them. Otherwise the ordering operators compare texts by code points, which orders ISO 8601 times
 * correctly.
 *
 * A regular expression may match anywhere in the text. The time of a match is bounded by the text's length
 * (lib/pattern.ts).
 */

export type ValueTest = (reader: FieldReader) => boolean

export interface Operator {
  /** What follows the operator: a value, a list of values, or nothing. */
  readonly takes: 'value' | 'list' | 'nothing'
  /** Describes which values satisfy the operator, for the reference. */
  readonly text: string
  /** Compiles the test for the values that follow the operator. Throws a ValueError if one of them is invalid. */
  compile(values: readonly string[]): ValueTest
}

export class ValueError extends Error {
  readonly code = 'SLUICE_CONDITION_VALUE'
}

const equal = (value: string): ValueTest => {
  const bytes = Buffer.from(value)
  return reader => {
    if (!hasText(reader.kind)) return false
    if (!reader.plain) return reader.text() === value
    return reader.end - reader.start === bytes.length && standsAt(reader.bytes, reader.start, bytes)
  }
}

const notEqual = (value: string): ValueTest => {
  const same = equal(value)
  return reader => hasText(reader.kind) && !same(reader)
}

const contains = (value: string): ValueTest => {
  const bytes = Buffer.from(value)
  return reader => hasText(reader.kind) && (reader.plain ? isIn(reader, bytes) : reader.text().includes(value))
}

const startsWith = (value: string): ValueTest => {
  const bytes = Buffer.from(value)
  return reader => {
    if (!hasText(reader.kind)) return false
    if (!reader.plain) return reader.text().startsWith(value)
    return reader.end - reader.start >= bytes.length && standsAt(reader.bytes, reader.start, bytes)
  }
}

const endsWith = (value: string): ValueTest => {
  const bytes = Buffer.from(value)
  return reader => {
    if (!hasText(reader.kind)) return false
    if (!reader.plain) return reader.text().endsWith(value)
    return reader.end - reader.start >= bytes.length && standsAt(reader.bytes, reader.end - bytes.length, bytes)
  }
}

/** If `value` is a number, compares it with numbers and numeric strings. Otherwise compares it with texts. */
const ordering =
  (holds: (order: number) => boolean) =>
  (value: string): ValueTest => {
    const limit = parsedNumber(value)
    if (Number.isNaN(limit)) {
      const bytes = Buffer.from(value)
      return reader => hasText(reader.kind) && holds(compareText(reader, bytes))
    }
    return reader => {
      const number = reader.number()
      if (number === limit && !Number.isSafeInteger(limit)) return holds(orderOfEqual(reader.text(), value, limit))
      return !Number.isNaN(number) && holds(number < limit ? -1 : number > limit ? 1 : 0)
    }
  }

/** Flags at the start of a pattern, as in `(?i)error`. JavaScript does not support this form. */
const FLAGS = /^\(\?([ims]+)\)/

const regexMatch = (value: string): ValueTest => {
  const flags = FLAGS.exec(value)
  try {
    const pattern = new Pattern(flags ? value.slice(flags[0].length) : value, `u${flags?.[1] ?? ''}`)
    return reader => hasText(reader.kind) && pattern.test(reader.text())
  } catch (error) {
    if (!(error instanceof PatternError)) throw error
    throw new ValueError(error.message)
  }
}

const inCidrRange = (value: string): ValueTest => {
  const ranges = value.split(',').map(cidr)
  return reader => {
    if (reader.kind !== STRING_VALUE) return false
    let { bytes, start, end } = reader
    if (!reader.plain) {
      bytes = Buffer.from(reader.text())
      start = 0
      end = bytes.length
    }
    for (let i = 0; i < ranges.length; i++) if (ranges[i]!(bytes, start, end)) return true
    return false
  }
}

function cidr(text: string): AddressTest {
  const range = text.trim()
  const test = parseCidr(range)
  if (test) return test
  const hint = isAddress(range) ? `; for this single address write ${range}/${range.includes(':') ? 128 : 32}` : ''
  throw new ValueError(`${JSON.stringify(range)} is not a CIDR range such as 10.0.0.0/8 or 2001:db8::/32${hint}`)
}

/** Whether the bytes [start, end) are the text of an address in the range. */
export type AddressTest = (bytes: Uint8Array, start: number, end: number) => boolean

/**
 * Parses a range such as `10.0.0.0/8`; undefined if invalid. Bits after the prefix are ignored. An IPv4-mapped IPv6
 * address (`::ffff:10.0.0.1`) is in ranges of both families. A plain IPv4 address is only in IPv4 ranges. One of these
 * is `::ffff:10.0.0.0/104`.
 */
export function parseCidr(text: string): AddressTest | undefined {
  const range = isAddress(text) ? undefined : parseRange(text)
  if (!range) return undefined
  const { masks, isIPv4 } = range
  const network = range.groups
  return (b, start, end) => {
    const family = readAddress(b, start, end)
    if (family === 0 || (family === 4 && !isIPv4)) return false
    // For IPv4 addresses, only the last two groups can differ, so only these are compared.
    for (let n = family === 4 ? 6 : 0; n < 8; n++) if (((groups[n]! ^ network[n]!) & masks[n]!) !== 0) return false
    return true
  }
}

export function isAddress(text: string): boolean {
  const bytes = Buffer.from(text)
  return readAddress(bytes, 0, bytes.length) !== 0
}

const isKind = (kind: ValueKind) => (): ValueTest => reader => reader.kind === kind

const isEmpty = (): ValueTest => reader => {
  const { bytes, start, end, kind } = reader
  if (kind !== STRING_VALUE && kind !== ARRAY_VALUE && kind !== OBJECT_VALUE) return false
  if (bytes.length === 0) return isEmptyValue(reader.value())
  if (kind === STRING_VALUE) return reader.plain ? start === end : reader.text() === ''
  // The object or array is empty if only white space is between its brackets.
  let p = start + 1
  while (bytes[p]! <= 0x20) p++
  return p === end - 1
}

function isEmptyValue(value: unknown): boolean {
  return typeof value === 'string' ? value === '' : Object.keys(value as object).length === 0
}

const notOneOf = (values: readonly string[]): ValueTest => {
  const isOne = oneOf(values)
  return reader => hasText(reader.kind) && !isOne(reader)
}

const comparison = (text: string, compile: (value: string) => ValueTest): Operator => ({
  takes: 'value',
  text,
  compile: ([value]) => compile(value!),
})
const ordered = (text: string, holds: (order: number) => boolean) => comparison(text, ordering(holds))
const check = (text: string, compile: () => ValueTest): Operator => ({ takes: 'nothing', text, compile })
const list = (text: string, compile: Operator['compile']): Operator => ({ takes: 'list', text, compile })

/** All operators by name, in the order of the reference. */
export const OPERATORS: ReadonlyMap<string, Operator> = new Map([
  ['equal', comparison('a text equal to the value', equal)],
  ['not_equal', comparison('a text different from the value', notEqual)],
  ['in', list('a text equal to one of the values', oneOf)],
  ['not_in', list('a text different from all values', notOneOf)],
  ['contains', comparison('a text that contains the value', contains)],
  ['starts_with', comparison('a text that starts with the value', startsWith)],
  ['ends_with', comparison('a text that ends with the value', endsWith)],
  ['exists', check('a field that exists, including null', () => reader => reader.kind !== MISSING)],
  ['is_empty', check('an empty string, array or object', isEmpty)],
  ['is_null', check('null', isKind(NULL_VALUE))],
  ['is_number', check('a number', isKind(NUMBER))],
  ['is_string', check('a string', isKind(STRING_VALUE))],
  ['is_boolean', check('true or false', isKind(BOOLEAN))],
  ['is_array', check('an array', isKind(ARRAY_VALUE))],
  ['is_object', check('an object', isKind(OBJECT_VALUE))],
  ['greater', ordered('a value above the given one', order => order > 0)],
  ['greater_or_equal', ordered('a value equal to or above the given one', order => order >= 0)],
  ['less', ordered('a value below the given one', order => order < 0)],
  ['less_or_equal', ordered('a value equal to or below the given one', order => order <= 0)],
  ['regex_match', comparison('a text in which the regular expression matches', regexMatch)],
  ['is_ip_in_cidr_range', comparison('a string that is an IP address in the range', inCidrRange)],
])

/** Compiles a test of whether a text is in the list. The time of a test does not depend on the length of the list. */
function oneOf(values: readonly string[]): ValueTest {
  const texts = new Set(values)
  const byHash = new Map<number, Buffer[]>()
  let longest = 0
  for (const text of texts) {
    const bytes = Buffer.from(text)
    const hash = hashOf(bytes, 0, bytes.length)
    const same = byHash.get(hash)
    if (same) same.push(bytes)
    else byHash.set(hash, [bytes])
    longest = Math.max(longest, bytes.length)
  }
  return reader => {
    if (!hasText(reader.kind)) return false
    if (!reader.plain) return texts.has(reader.text())
    const { bytes, start, end } = reader
    if (end - start > longest) return false
    const same = byHash.get(hashOf(bytes, start, end))
    if (same === undefined) return false
    for (let k = 0; k < same.length; k++) {
      if (same[k]!.length === end - start && standsAt(bytes, start, same[k]!)) return true
    }
    return false
  }
}

/** Returns a 30-bit hash, which V8 stores without a heap object. Needs no seed, because the user wrote the list. */
function hashOf(bytes: Uint8Array, start: number, end: number): number {
  let hash = end - start
  for (let p = start; p < end; p++) hash = Math.imul(hash ^ bytes[p]!, 0x01000193)
  return (hash ^ (hash >>> 15)) & 0x3fffffff
}
