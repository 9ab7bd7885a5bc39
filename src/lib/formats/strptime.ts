import type { TimeZone } from './time-zone.js'

/** Reads times in a given format, with the directives of strptime. */

/** A time: the beginning of its second in milliseconds since the epoch, and the digits of its fraction. */
export interface ReadTime {
  readonly ms: number
  readonly fraction: string
}

/** Returns the time in a text, or undefined. A missing zone is `zone`; a missing year is chosen nearest to `wall`. */
export type TimeParser = (text: string, zone: TimeZone, wall: number) => ReadTime | undefined

export const MONTHS = 'jan feb mar apr may jun jul aug sep oct nov dec'.split(' ')
const MONTH =
  'jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t|tember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?'
const DAY = 'mon(?:day)?|tue(?:s|sday)?|wed(?:nesday)?|thu(?:rs|rsday)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?'
/** Offsets of named zones, in minutes from UTC: the zones of RFC 822, and others with an unambiguous name. */
const ZONES: Readonly<Record<string, number>> = {
  ...{
    Z: 0,
    UTC: 0,
    GMT: 0,
    UT: 0,
    EST: -300,
    EDT: -240,
    CST: -360,
    CDT: -300,
    MST: -420,
    MDT: -360,
    PST: -480,
    PDT: -420,
  },
  ...{ CET: 60, CEST: 120 },
}
const ZONE = '[+-]\\d\\d:?(?:\\d\\d)?|[A-Za-z]{1,4}'

/** The regular expressions of directives. The text of a group is stored under the directive's letter. */
const DIRECTIVES: Readonly<Record<string, string>> = {
  Y: '(\\d{4})',
  y: '(\\d{2})',
  m: '(\\d{1,2})',
  d: '\\s?(\\d{1,2})',
  j: '(\\d{1,3})',
  H: '\\s?(\\d{1,2})',
  I: '\\s?(\\d{1,2})',
  M: '(\\d{1,2})',
  S: '(\\d{1,2})',
  f: '(\\d{1,9})\\d*',
  p: '([ap]\\.?m\\.?)',
  b: `(${MONTH})`,
  a: `(?:${DAY})`,
  z: `(${ZONE})`,
  s: '(-?\\d{1,12})',
  n: '\\s+',
  '%': '%',
}
/** Directives that expand to several others. */
const SHORT: Readonly<Record<string, string>> = {
  T: '%H:%M:%S',
  D: '%m/%d/%y',
  F: '%Y-%m-%d',
  R: '%H:%M',
  r: '%I:%M:%S %p',
}
/** Directives on the left are read like the directives on the right. */
const SAME: Readonly<Record<string, string>> = {
  t: 'n',
  e: 'd',
  k: 'H',
  l: 'I',
  L: 'f',
  N: 'f',
  P: 'p',
  B: 'b',
  h: 'b',
  A: 'a',
  Z: 'z',
}
const LONGEST_FORMAT = 256
/** Maximum characters of a time. */
export const LONGEST_TIME = 128

/** Compiles a format. Throws an Error that says what is wrong in it. */
export function compileFormat(format: string): TimeParser {
  if (format.length > LONGEST_FORMAT) throw new Error(`the format is longer than ${LONGEST_FORMAT} characters`)
  const kinds: string[] = []
  const long = format.replace(/%([TDFRr])/g, (_, letter: string) => SHORT[letter]!)
  const source = long.replace(/%(?:\.?([369]?)f|:?([\s\S]))|\s+|[^%\s]/g, (part, digits?: string, letter?: string) => {
    if (part.startsWith('%') && letter === undefined) {
      kinds.push('f')
      const count = digits ? `\\d{${digits}}` : '\\d{1,9}'
      return part.includes('.') ? `(?:\\.(${count})\\d*)?` : `(${count})\\d*`
    }
    if (letter === undefined) return /^\s/.test(part) ? '\\s+' : part.replace(/[\\^$.*+?()[\]{}|/-]/, '\\$&')
    const kind = SAME[letter] ?? letter
    const pattern = Object.hasOwn(DIRECTIVES, kind) ? DIRECTIVES[kind] : undefined
    if (pattern === undefined) throw new Error(`%${letter} is not a directive of a time format`)
    if (pattern.includes('(') && !pattern.startsWith('(?:')) kinds.push(kind)
    return pattern
  })
  if (long.replace(/%[\s\S]/g, '').includes('%')) throw new Error('the format ends with a single %')
  const expression = new RegExp(`^\\s*${source}\\s*$`, 'i')
  const hasDate = kinds.includes('s') || kinds.includes('d') || kinds.includes('j')
  if (!hasDate) throw new Error('the format has no day: it needs %d, %j or %s')
  return (text, zone, wall) => {
    const found = text.length > LONGEST_TIME ? null : expression.exec(text)
    if (!found) return undefined
    const given: Record<string, string> = {}
    kinds.forEach((kind, n) => {
      given[kind] = found[n + 1] ?? ''
    })
    return timeOf(given, zone, wall)
  }
}

/** Builds a time from the parts of a text. `given`: the text of each part, by the letter of its directive. */
export function timeOf(given: Readonly<Record<string, string>>, zone: TimeZone, wall: number): ReadTime | undefined {
  const fraction = given.f ?? ''
  if (given.s !== undefined) return { ms: Number(given.s) * 1000, fraction }
  const hour = hourOf(given)
  const minute = Number(given.M ?? 0)
  const second = Number(given.S ?? 0)
  if (Number.isNaN(hour) || hour > 23 || minute > 59 || second > 60) return undefined
  const offset = given.z ? minutesOf(given.z) : undefined
  if (given.z && offset === undefined) return undefined
  const inYear = (year: number) => {
    const local = localTime(given, year, hour, minute, second)
    return offset === undefined ? zone.utc(local) : local - offset * 60_000
  }
  const year = yearOf(given)
  const ms = year === undefined ? nearest(inYear, wall) : inYear(year)
  return Number.isNaN(ms) ? undefined : { ms, fraction }
}

/** Returns the milliseconds of a local time as if it were in UTC; NaN if the day does not exist. */
function localTime(
  given: Readonly<Record<string, string>>,
  year: number,
  hour: number,
  minute: number,
  second: number,
) {
  const month = given.j ? 0 : given.b ? MONTHS.indexOf(given.b.slice(0, 3).toLowerCase()) : Number(given.m ?? 1) - 1
  const day = Number(given.j ?? given.d ?? 1)
  const date = new Date(0)
  date.setUTCFullYear(year, month, day)
  const isDay = given.j
    ? day >= 1 && date.getUTCFullYear() === year
    : day >= 1 && date.getUTCMonth() === month && date.getUTCDate() === day
  return isDay ? date.getTime() + ((hour * 60 + minute) * 60 + second) * 1000 : Number.NaN
}

function hourOf({ H, I, p }: Readonly<Record<string, string>>): number {
  if (I === undefined) return Number(H ?? 0)
  const hour = Number(I)
  if (hour < 1 || hour > 12) return Number.NaN
  return (hour % 12) + (/^p/i.test(p ?? '') ? 12 : 0)
}

/** Undefined if the year is missing. Two digits mean a year from 1969 to 2068. */
function yearOf({ Y, y }: Readonly<Record<string, string>>): number | undefined {
  if (Y !== undefined) return Number(Y)
  return y === undefined ? undefined : Number(y) + (Number(y) < 69 ? 2000 : 1900)
}

/** Returns the offset from UTC, in minutes, of a zone such as `+01:00` or `EST`; undefined for an unknown zone. */
function minutesOf(zone: string): number | undefined {
  const [, sign, hours, minutes = '0'] = /^([+-])(\d\d):?(\d\d)?$/.exec(zone) ?? []
  if (sign === undefined) return ZONES[zone.toUpperCase()]
  const offset = Number(hours) * 60 + Number(minutes || 0)
  return sign === '-' ? -offset : offset
}

/** If a timestamp without a year is at most this far from its time of receipt, the assumed year is right. */
const HALF_YEAR_MS = 183 * 86_400_000

/** Tries nearby years, and returns the time nearest to `wall`. `inYear`: milliseconds; NaN for an invalid day. */
export function nearest(inYear: (year: number) => number, wall: number): number {
  const received = new Date(wall).getFullYear()
  let best = inYear(received)
  if (Math.abs(best - wall) <= HALF_YEAR_MS) return best
  for (const year of [received - 1, received + 1]) {
    const time = inYear(year)
    if (!(Math.abs(best - wall) <= Math.abs(time - wall)) && !Number.isNaN(time)) best = time
  }
  return best
}
