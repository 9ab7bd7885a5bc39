/** Formats numbers and times, in the same way as `sluice top`. */

const PREFIXES = ['', 'k', 'M', 'G', 'T', 'P']

/** Formats a number with at most five characters: 999, 12.3k, 4.56M. */
export function shortNumber(value: number): string {
  let unit = 0
  let rest = value
  while (Math.round(rest) >= 1000 && unit < PREFIXES.length - 1) {
    rest /= 1000
    unit++
  }
  if (unit === 0) return rest > 0 && rest < 10 && !Number.isInteger(rest) ? rest.toFixed(1) : String(Math.round(rest))
  return `${rest.toFixed(rest < 9.995 ? 2 : rest < 99.95 ? 1 : 0)}${PREFIXES[unit]}`
}

/** 1,204,118 */
export const grouped = (value: number) => Math.round(value).toLocaleString('en-US')

/** 3.41k/s */
export const rate = (value: number | undefined) => (value === undefined ? '–' : `${shortNumber(value)}/s`)

export const bytes = (value: number) => `${shortNumber(value)}B`

export const countedWhole = (count: number, what: string) => `${grouped(count)} ${what}${count === 1 ? '' : 's'}`

export const percentText = (share: number) => `${Math.round(share * 100)} %`

/** Formats a duration: 1.5s, 2m 5s, 3h 20m, 12d 4h; below one second in milliseconds. */
export function durationText(ms: number): string {
  if (ms < 1000) return `${Math.round(Math.max(0, ms))}ms`
  if (ms < 60_000) return `${+(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)}s`
  const minutes = Math.floor(ms / 60_000)
  if (minutes < 60) return parts(minutes, 'm', Math.floor((ms % 60_000) / 1000), 's')
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? parts(hours, 'h', minutes % 60, 'm') : parts(Math.floor(hours / 24), 'd', hours % 24, 'h')
}

const parts = (large: number, unit: string, small: number, of: string) =>
  small === 0 ? `${large}${unit}` : `${large}${unit} ${small}${of}`

/** Formats a local time of day, with the date if that is not today. */
export function clock(time: string | number, now = Date.now()): string {
  const at = new Date(time)
  if (Number.isNaN(at.getTime())) return String(time)
  const two = (n: number) => String(n).padStart(2, '0')
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} `
  return `${at.toDateString() === new Date(now).toDateString() ? '' : day}${at.toTimeString().slice(0, 8)}`
}

const UNITS_MS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Parses 250ms, 10s, `10 Seconds`, 5m, 1h to milliseconds. */
export function milliseconds(text: string): number | undefined {
  const [, amount, unit] = /^\s*(\d+(?:\.\d+)?)\s*((?:ms|milli|[smhd])[a-z]*)\s*$/i.exec(text) ?? []
  if (!amount || !unit) return undefined
  return Number(amount) * (/^(ms|milli)/i.test(unit) ? 1 : UNITS_MS[unit[0]!.toLowerCase()]!)
}

/** Uses JSON escapes for invisible characters, and for characters that change the text direction. */
export const visible = (text: string) =>
  text.replace(
    /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    sign => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
