import {
  ARRAY,
  BOOLEAN,
  type FieldReader,
  MISSING,
  NULL,
  NUMBER,
  numberOf,
  OBJECT_VALUE,
  STRING,
  type ValueKind,
} from '../core/event/field-reader.js'
import { Pattern, PatternError } from '../lib/pattern.js'
import { type AddressTest, isAddress, parseCidr } from './cidr.js'

/**
 * What conditions ask of a field. Comparisons are of text, case-sensitive: strings as they are, numbers and booleans as
 * String() says. A missing path, null, an object or an array has no text and satisfies none of them, `not_equal`
 * included: `NOT .a equal 'x'` is what holds for all events but those. `is_empty` asks for a value that is there:
 * neither a missing path nor null is empty.
 *
 * The ordering operators compare numbers where the value is one; text that says no number satisfies none of them then.
 * Any other value they compare as text, by code points: times as ISO 8601 order well.
 *
 * A regular expression is matched anywhere in the text, in a time that is bounded by the text's length (lib/pattern.ts).
 */

/** Whether the value that the reader was moved to satisfies one comparison. */
export type ValueTest = (reader: FieldReader) => boolean

export interface Operator {
  /** Whether a value stands behind it. */
  readonly takesValue: boolean
  /** What it holds for, as text for the reference. */
  readonly text: string
  /** The test for `value` (empty where it takes none). Throws ValueError when the value is of no use to it. */
  compile(value: string): ValueTest
}

/** What is wrong with a comparison's value. */
export class ValueError extends Error {
  readonly code = 'SLUICE_CONDITION_VALUE'
}

/** Longer values are searched by the platform: the call costs more than the search in a short one. */
const SEARCH_NATIVE_FROM = 256

/** Strings, numbers and booleans have a text to compare; nothing else does. */
function hasText(kind: ValueKind): boolean {
  return kind >= STRING && kind <= BOOLEAN
}

/** Whether `other` stands in `bytes` at `at`. */
function standsAt(bytes: Uint8Array, at: number, other: Uint8Array): boolean {
  for (let i = 0; i < other.length; i++) if (bytes[at + i] !== other[i]) return false
  return true
}

function isIn(reader: FieldReader, part: Buffer): boolean {
  const { bytes, start, end } = reader
  if (part.length === 0) return true
  if (end - start > SEARCH_NATIVE_FROM) return bytes.subarray(start, end).includes(part)
  const first = part[0]
  for (let p = start; p <= end - part.length; p++) if (bytes[p] === first && standsAt(bytes, p, part)) return true
  return false
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

/** Below, at or above 0 as the reader's text is before, the same as or after `bytes`, by code points. */
function compareText(reader: FieldReader, bytes: Buffer): number {
  if (!reader.plain) return Buffer.compare(Buffer.from(reader.text()), bytes)
  const length = reader.end - reader.start
  const shorter = Math.min(length, bytes.length)
  for (let i = 0; i < shorter; i++) {
    const difference = reader.bytes[reader.start + i]! - bytes[i]!
    if (difference !== 0) return difference
  }
  return length - bytes.length
}

/** The value decides: a number is compared with numbers (and strings that say one), any other text with texts. */
const ordering =
  (holds: (order: number) => boolean) =>
  (value: string): ValueTest => {
    const limit = numberOf(value)
    if (Number.isNaN(limit)) {
      const bytes = Buffer.from(value)
      return reader => hasText(reader.kind) && holds(compareText(reader, bytes))
    }
    return reader => {
      const number = reader.number()
      return !Number.isNaN(number) && holds(number < limit ? -1 : number > limit ? 1 : 0)
    }
  }

/** Flags in front, as in `(?i)error`: the platform has no syntax of its own for them. */
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
    if (reader.kind !== STRING) return false
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
  const hint = isAddress(range) ? `; for this one address write ${range}/${range.includes(':') ? 128 : 32}` : ''
  throw new ValueError(`${JSON.stringify(range)} is not a CIDR range such as 10.0.0.0/8 or 2001:db8::/32${hint}`)
}

const isKind = (kind: ValueKind) => (): ValueTest => reader => reader.kind === kind

const isEmpty = (): ValueTest => reader => {
  const { bytes, start, end, kind } = reader
  if (kind !== STRING && kind !== ARRAY && kind !== OBJECT_VALUE) return false
  if (bytes.length === 0) return isEmptyValue(reader.value())
  if (kind === STRING) return reader.plain ? start === end : reader.text() === ''
  // A bracket follows the white space: it has no content.
  let p = start + 1
  while (bytes[p]! <= 0x20) p++
  return p === end - 1
}

function isEmptyValue(value: unknown): boolean {
  return typeof value === 'string' ? value === '' : Object.keys(value as object).length === 0
}

const comparison = (text: string, compile: Operator['compile']): Operator => ({ takesValue: true, text, compile })
const check = (text: string, compile: Operator['compile']): Operator => ({ takesValue: false, text, compile })

/** Every operator by its name, in the order of the reference. */
export const OPERATORS: ReadonlyMap<string, Operator> = new Map([
  ['equal', comparison('a text that is the value', equal)],
  ['not_equal', comparison('a text that is not the value', notEqual)],
  ['contains', comparison('a text with the value somewhere in it', contains)],
  ['starts_with', comparison('a text that starts with the value', startsWith)],
  ['ends_with', comparison('a text that ends with the value', endsWith)],
  ['exists', check('a field that is there, null included', () => reader => reader.kind !== MISSING)],
  ['is_empty', check('an empty string, array or object', isEmpty)],
  ['is_null', check('null', isKind(NULL))],
  ['is_number', check('a number', isKind(NUMBER))],
  ['is_string', check('a string', isKind(STRING))],
  ['is_boolean', check('true or false', isKind(BOOLEAN))],
  ['is_array', check('an array', isKind(ARRAY))],
  ['is_object', check('an object', isKind(OBJECT_VALUE))],
  [
    'greater',
    comparison(
      'what is above the value',
      ordering(order => order > 0),
    ),
  ],
  [
    'greater_or_equal',
    comparison(
      'the value and what is above it',
      ordering(order => order >= 0),
    ),
  ],
  [
    'less',
    comparison(
      'what is below the value',
      ordering(order => order < 0),
    ),
  ],
  [
    'less_or_equal',
    comparison(
      'the value and what is below it',
      ordering(order => order <= 0),
    ),
  ],
  ['regex_match', comparison('a text in which the regular expression matches', regexMatch)],
  ['is_ip_in_cidr_range', comparison('a string that is an IP address in the range', inCidrRange)],
])
