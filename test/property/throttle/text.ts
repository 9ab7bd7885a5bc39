/** What the texts of a configuration mean, as far as the scenarios use them. */

export type Fields = Record<string, unknown>

const UNITS: Record<string, number> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  Milliseconds: 1,
  Seconds: 1000,
  Minutes: 60_000,
  Hours: 3_600_000,
}
const SIZES: Record<string, number> = { B: 1, kB: 1000, KiB: 1024, MB: 1_000_000 }

function quantity(text: string, units: Record<string, number>): number {
  const [, value, unit] = /^(\d+) ?(\w+)$/.exec(text)!
  return Number(value) * units[unit!]!
}

export const durationOf = (text: unknown) => quantity(text as string, UNITS)
export const sizeOf = (value: unknown) => (typeof value === 'number' ? value : quantity(value as string, SIZES))

/** The value at a path such as `.a`. */
export const valueAt = (path: unknown, event: Fields) => event[(path as string).slice(1)]

/** The text of a value in a bucket's name; undefined: it has none. */
function keyText(value: unknown): string | undefined {
  if (value === undefined || value === null || value === '') return undefined
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** The text of the bucket; null: the default one. */
export function bucketOf(keyField: unknown, event: Fields): string | null {
  if (keyField === undefined) return null
  if (!Array.isArray(keyField)) return keyText(valueAt(keyField, event)) ?? null
  const texts = keyField.map(path => keyText(valueAt(path, event)) ?? null)
  return texts.every(text => text === null) ? null : JSON.stringify(texts)
}

/** `if (.a equal 'x')` or `if (.a exists)`. */
export function holds(condition: unknown, event: Fields): boolean {
  const [, path, operator, text] = /^if \((\.\w+) (equal|exists)(?: '([^']*)')?\)$/.exec(condition as string)!
  const value = valueAt(path, event)
  if (operator === 'exists') return value !== undefined
  return value !== undefined && value !== null && typeof value !== 'object' && String(value) === text
}

/** A pattern for buckets: `*`, `?`, sets, alternatives without nesting, and backslashes. */
export function matches(pattern: string, text: string): boolean {
  if (pattern === '') return text === ''
  const [first = ''] = pattern
  const rest = pattern.slice(first.length)
  const [character = ''] = text
  const after = text.slice(character.length)
  if (first === '*') return matches(rest, text) || (text !== '' && matches(pattern, after))
  if (first === '{') {
    const end = rest.indexOf('}')
    return rest
      .slice(0, end)
      .split(',')
      .some(one => matches(one + rest.slice(end + 1), text))
  }
  if (text === '') return false
  if (first === '?') return matches(rest, after)
  if (first === '[') {
    const end = rest.indexOf(']')
    const set = rest.slice(0, end)
    const isIn = set.startsWith('!') ? !set.includes(character) : set.includes(character)
    return isIn && matches(rest.slice(end + 1), after)
  }
  if (first === '\\') return rest[0] === character && matches(rest.slice(1), after)
  return first === character && matches(rest, after)
}

/** Milliseconds since the epoch: a number, digits, or ISO 8601 in UTC. */
export function timeOf(value: unknown): number {
  if (typeof value === 'number') return value
  if (typeof value !== 'string') return Number.NaN
  return /^\d{9,}$/.test(value) ? Number(value) : /^\d{4}-\d\d-\d\dT/.test(value) ? Date.parse(value) : Number.NaN
}

const TIME_FIELDS = ['timestamp', '@timestamp', 'time', 'ts', '@t', 't', 'datetime', 'date', 'eventTime']

/** `time_field: auto`. The scenarios write no event with several of these fields. */
export function foundTime(event: Fields): number {
  for (const name of TIME_FIELDS) {
    const value = event[name]
    if (typeof value === 'number' && value >= 1e8) {
      if (value < 1e11) return value * 1000
      return value < 1e14 ? value : value < 1e17 ? value / 1000 : value / 1e6
    }
    const time = typeof value === 'string' ? timeOf(value) : Number.NaN
    if (!Number.isNaN(time)) return time
  }
  return Number.NaN
}
