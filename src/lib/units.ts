/** Durations and sizes as people write them. The parsers return undefined for a text that they do not understand. */

const DURATION_MS: Record<string, number> = {
  millisecond: 1,
  milli: 1,
  msec: 1,
  ms: 1,
  second: 1000,
  sec: 1000,
  s: 1000,
  minute: 60_000,
  min: 60_000,
  m: 60_000,
  hour: 3_600_000,
  hr: 3_600_000,
  h: 3_600_000,
  day: 86_400_000,
  d: 86_400_000,
}

const SIZE_BYTES: Record<string, number> = {
  b: 1,
  kb: 1000,
  mb: 1000 ** 2,
  gb: 1000 ** 3,
  tb: 1000 ** 4,
  kib: 1024,
  mib: 1024 ** 2,
  gib: 1024 ** 3,
  tib: 1024 ** 4,
}

const AMOUNT = /^\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*$/

function amount(text: string, factors: Record<string, number>, plural: boolean): number | undefined {
  const match = AMOUNT.exec(text)
  if (!match) return undefined
  const unit = match[2]!.toLowerCase()
  const factor = factors[unit] ?? (plural && unit.length > 2 ? factors[unit.replace(/s$/, '')] : undefined)
  return factor === undefined ? undefined : Number(match[1]) * factor
}

/** Parses `10 Seconds`, `500ms`, `1 hr`, `5 mins` to milliseconds. */
export function parseDuration(text: string): number | undefined {
  return amount(text, DURATION_MS, true)
}

/** Parses `1MB`, `64KiB`, `100 b` or `4096` to bytes. */
export function parseSize(text: string): number | undefined {
  return /^\s*\d+\s*$/.test(text) ? Number(text) : amount(text, SIZE_BYTES, false)
}

/** Formats 1234567 as `1.2 MB`. */
export function formatSize(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  let unit = 0
  while (bytes >= 1000 && unit < units.length - 1) {
    bytes /= 1000
    unit++
  }
  return `${unit === 0 ? bytes : bytes.toFixed(1)} ${units[unit]}`
}

/** Formats 90500 as `1m 30s`. Below one second, uses milliseconds. */
export function formatDuration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)}ms`
  if (ms < 60_000) return `${+(ms / 1000).toFixed(1)}s`
  const minutes = Math.floor(ms / 60_000)
  if (minutes < 60) return `${minutes}m ${Math.floor((ms % 60_000) / 1000)}s`
  return `${Math.floor(minutes / 60)}h ${minutes % 60}m`
}

const PREFIXES = ['', 'k', 'M', 'G', 'T', 'P']

/** Formats a number with at most five characters: 999, 12.3k, 4.56M. */
export function short(value: number): string {
  let unit = 0
  let rest = value
  while (Math.round(rest) >= 1000 && unit < PREFIXES.length - 1) {
    rest /= 1000
    unit++
  }
  if (unit === 0) return rest > 0 && rest < 10 && !Number.isInteger(rest) ? rest.toFixed(1) : String(Math.round(rest))
  return `${rest.toFixed(rest < 9.995 ? 2 : rest < 99.95 ? 1 : 0)}${PREFIXES[unit]}`
}

/** Formats `1 file` or `2 files`. */
export function counted(count: number, what: string): string {
  return `${short(count)} ${what}${count === 1 ? '' : 's'}`
}

/** Formats an ISO 8601 time as local time of day. Adds the date if `wall` is on another day. */
export function clockTime(time: string, wall: number): string {
  const at = new Date(time)
  const clock = at.toTimeString().slice(0, 8)
  if (at.toDateString() === new Date(wall).toDateString()) return clock
  const two = (n: number) => String(n).padStart(2, '0')
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock}`
}

/** Formats a number of seconds. Formats less than one second as one second. */
export const lasting = (seconds: number) => formatDuration(Math.max(1, Math.round(seconds)) * 1000)
