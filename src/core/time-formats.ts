import { compileFormat, LONGEST_TIME, type ReadTime, type TimeParser, timeOf } from '../lib/formats/strptime.js'

/** The named time formats, and a format that tries all of these. */

const ISO =
  /^\s*([+-]?\d{4,6})-?(\d\d)-?(\d\d)(?:[Tt ]+(\d\d)(?::?(\d\d)(?::?(\d\d)(?:[.,](\d{1,9})\d*)?)?)?\s*(Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?)?\s*$/i

const iso: TimeParser = (text, zone, wall) => {
  const found = text.length > LONGEST_TIME ? null : ISO.exec(text)
  if (!found) return undefined
  const [, Y, m, d, H = '0', M = '0', S = '0', f = '', z = ''] = found
  return timeOf({ Y: Y!, m: m!, d: d!, H, M, S, f, z }, zone, wall)
}

/** Reads the time since the epoch, as a number of seconds times 10^`digits`. */
function epoch(digits: number): TimeParser {
  return text => {
    const [, sign = '', whole = '', rest = ''] = /^\s*(-?)(\d{1,24})(?:\.(\d{1,24}))?\s*$/.exec(text) ?? []
    if (whole === '') return undefined
    const padded = whole.padStart(digits + 1, '0')
    return epochTime(sign, padded.slice(0, padded.length - digits), padded.slice(padded.length - digits) + rest)
  }
}

function epochTime(sign: string, seconds: string, digits: string): ReadTime | undefined {
  const fraction = digits.slice(0, 9)
  const ms = Number(seconds) * 1000
  // A fraction always counts forward, so a negative time becomes an earlier second and a positive fraction.
  if (sign === '-' && Number(fraction) > 0) {
    const rest = String(10 ** fraction.length - Number(fraction)).padStart(fraction.length, '0')
    return { ms: -ms - 1000, fraction: rest }
  }
  return { ms: sign === '-' ? -ms : ms, fraction }
}

const EPOCHS = [epoch(0), epoch(3), epoch(6), epoch(9)]

/** Seconds, milliseconds, microseconds or nanoseconds, whichever gives a time between 1973 and 5138. */
const anyEpoch: TimeParser = (text, zone, wall) => {
  const digits = /^\s*-?(\d+)/.exec(text)?.[1]?.length ?? 0
  // Fewer digits are more likely a year or another number.
  if (digits < 9) return undefined
  return EPOCHS[digits < 12 ? 0 : digits < 15 ? 1 : digits < 18 ? 2 : 3]!(text, zone, wall)
}

const firstOf =
  (readers: readonly TimeParser[]): TimeParser =>
  (text, zone, wall) => {
    for (const read of readers) {
      const time = read(text, zone, wall)
      if (time) return time
    }
    return undefined
  }

const rfc2822 = firstOf(
  ['%a, %d %b %Y %H:%M:%S%.f %z', '%d %b %Y %H:%M:%S%.f %z', '%a, %d %b %Y %H:%M %z', '%d %b %Y %H:%M %z'].map(
    compileFormat,
  ),
)
const http = firstOf(
  ['%a, %d %b %Y %H:%M:%S%.f %Z', '%A, %d-%b-%y %H:%M:%S %Z', '%a %b %e %H:%M:%S %Y'].map(compileFormat),
)
const common = compileFormat('%d/%b/%Y:%H:%M:%S %z')
const syslog = firstOf(['%b %e %H:%M:%S%.f', '%b %e %Y %H:%M:%S%.f'].map(compileFormat))
const others = ['%a %b %e %H:%M:%S %Z %Y', '%a %b %e %H:%M:%S%.f %Y', '%Y/%m/%d %H:%M:%S%.f'].map(compileFormat)

export const TIME_FORMATS: Readonly<Record<string, TimeParser>> = {
  auto: firstOf([iso, anyEpoch, rfc2822, http, common, syslog, ...others]),
  iso8601: iso,
  rfc3339: iso,
  rfc2822,
  http,
  common_log: common,
  syslog,
  unix: EPOCHS[0]!,
  unix_ms: EPOCHS[1]!,
  unix_us: EPOCHS[2]!,
  unix_ns: EPOCHS[3]!,
}

const LARGEST_MS = 8.64e15

/**
 * The last time without its fraction, in milliseconds since the epoch and as text. Cached, since many lines share it.
 */
let [lastMs, lastSecond] = [Number.NaN, '']

/** Returns the time as ISO 8601 in UTC, with at least three digits of the fraction; undefined if out of range. */
export function isoText({ ms, fraction }: ReadTime): string | undefined {
  if (!(Math.abs(ms) <= LARGEST_MS)) return undefined
  if (ms !== lastMs) lastSecond = new Date(ms).toISOString().slice(0, -4)
  lastMs = ms
  return `${lastSecond}${fraction.padEnd(3, '0')}Z`
}
