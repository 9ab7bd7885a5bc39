import { TimeZone } from '../lib/formats/time-zone.js'
import { parseDuration, parseSize } from '../lib/units.js'
import { parsedNumber } from './event/field-reader.js'
import { isoText, TIME_FORMATS } from './time-formats.js'

export const TYPES = ['int', 'float', 'bool', 'string', 'duration', 'bytes', 'timestamp'] as const
export type FieldType = (typeof TYPES)[number]

export const TYPES_TEXT =
  'int; float; string; bool (true, t, yes, y, on, 1 and their opposites); duration (`1.5s`, `2h`, `250us`, `1h30m` or `0` becomes a number of milliseconds); bytes (`64KiB` or `1MB` becomes a number); timestamp (any usual form becomes ISO 8601; a time without a zone is in UTC, and the second 60 is the first one of the next minute)'

const EXPECTED: Readonly<Record<FieldType, string>> = {
  int: 'an integer',
  float: 'a number',
  bool: 'true or false',
  string: 'text',
  duration: 'a duration such as 250ms',
  bytes: 'a size such as 64KiB',
  timestamp: 'a time',
}

const UTC = new TimeZone('UTC')
const BOOLEANS = new Map([
  ...['true', 't', 'yes', 'y', 'on', '1'].map(text => [text, true] as const),
  ...['false', 'f', 'no', 'n', 'off', '0'].map(text => [text, false] as const),
])

const converters: Readonly<Record<FieldType, (text: string, wall: number) => unknown>> = {
  int: text => (/^\s*[+-]?\d{1,40}\s*$/.test(text) ? BigInt(text.trim().replace(/^\+/, '')) : undefined),
  float: text => {
    const number = parsedNumber(text)
    return Number.isFinite(number) ? number : undefined
  },
  bool: text => BOOLEANS.get(text.trim().toLowerCase()),
  string: text => text,
  duration: millisecondsOf,
  bytes: parseSize,
  timestamp: (text, wall) => {
    const time = TIME_FORMATS.auto!(text, UTC, wall)
    return time && isoText(time)
  },
}

/**
 * Converts `text` to this type; undefined if impossible. An integer becomes a bigint, which keeps all its digits.
 * `wall`: when the event was received, in milliseconds (NaN: unknown). This gives the year of a time without a year.
 */
export function convertText(type: FieldType, text: string, wall = Number.NaN): unknown {
  return converters[type](text, wall)
}

/**
 * Returns the message for a `value` of a wrong type. The message does not quote the value, because the message is
 * logged and the value may be a secret.
 */
export function notOfType(name: string, type: FieldType, value: unknown): string {
  return `${name} should be ${EXPECTED[type]}, and is ${kindOf(value)}`
}

function kindOf(value: unknown): string {
  if (typeof value === 'string')
    return value.length === 1 ? 'a text of 1 character' : `a text of ${value.length} characters`
  if (typeof value === 'object') return value === null ? 'null' : Array.isArray(value) ? 'an array' : 'an object'
  return typeof value === 'boolean' ? 'a boolean' : 'another number'
}

const LONGEST_DURATION = 100
const PART = /(\d+(?:\.\d+)?)\s*([A-Za-zµμ]+)\s*/y
const SHORTER: Readonly<Record<string, number>> = { ns: 1e6, us: 1e3, µs: 1e3, μs: 1e3 }

/** Converts a text such as `1h30m`, `1.5 s` or `250us` to milliseconds. */
function millisecondsOf(text: string): number | undefined {
  const parts = text.trim()
  if (parts === '0') return 0
  if (parts === '' || parts.length > LONGEST_DURATION) return undefined
  let sum = 0
  PART.lastIndex = 0
  while (PART.lastIndex < parts.length) {
    const [, amount, unit] = PART.exec(parts) ?? []
    if (amount === undefined) return undefined
    const shorter = Object.hasOwn(SHORTER, unit!) ? SHORTER[unit!] : undefined
    const ms = shorter === undefined ? parseDuration(`${amount} ${unit}`) : Number(amount) / shorter
    if (ms === undefined) return undefined
    sum += ms
  }
  return sum
}
