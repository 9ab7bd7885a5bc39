import { displayWidth, padEnd, wrap } from '../../daemon/process/wrap.js'
import { printable, printableJson } from '../../lib/printable.js'

/** Formats responses of the service for people: lists as tables, single objects as lines, a key on its own line. */

type Fields = Readonly<Record<string, unknown>>

/** Columns of a list, the most useful first. If the columns do not fit, the last columns are omitted. */
const COLUMNS = [
  'id',
  'name',
  'title',
  'email',
  'host',
  'type',
  'role',
  'health',
  'revision',
  'published_revision',
  'expires_at',
  'last_used_at',
  'updated_at',
  'created_at',
]
const GAP = 2
const NEW_KEY = 'The key. It is not shown again:'

export function peopleText(value: unknown, width: number): string {
  if (Array.isArray(value)) return listText(value, width)
  if (!isFields(value))
    return `${typeof value === 'string' ? printable(value) : printableJson(JSON.stringify(value, null, 2))}\n`
  const { key, config, service_bounds: bounds, ...fields } = value
  const flat = flatten(fields)
  const longest = Math.max(0, ...flat.map(([name]) => displayWidth(name)))
  const lead = longest + GAP
  const lines = flat.flatMap(([name, text]) =>
    wrap(`${padEnd(name, lead)}${text}`.trimEnd(), width, ' '.repeat(Math.min(lead, width >> 1))),
  )
  if (Array.isArray(bounds) && bounds.length > 0) lines.push('', 'where the service runs it', ...bounds.map(boundText))
  if (config !== undefined) lines.push('', 'config', ...JSON.stringify(config, null, 2).split('\n').map(printable))
  // The key is on its own line, so that a double or triple click selects it.
  if (typeof key === 'string') lines.push('', NEW_KEY, key)
  return `${lines.join('\n')}\n`
}

function boundText({ path, message }: Fields): string {
  return printable(`  ${path ? `${path}: ` : ''}${message}`)
}

function listText(items: readonly unknown[], width: number): string {
  if (items.length === 0) return 'The list is empty.\n'
  const rows = items.filter(isFields).map(row => {
    // A service account has a single key. The times of this key are shown in the row of the account.
    const { last_used_at, expires_at } = isFields(row.access_key) ? row.access_key : row
    return { ...row, last_used_at, expires_at } as Fields
  })
  if (rows.length < items.length) return `${items.map(cellText).join('\n')}\n`
  const columns = COLUMNS.filter(column => rows.some(row => row[column] !== undefined))
  if (columns.length === 0) return `${rows.map(row => printable(JSON.stringify(row))).join('\n')}\n`
  const cells = [
    columns.map(column => column.replaceAll('_', ' ')),
    ...rows.map(row => columns.map(one => cellText(row[one]))),
  ]
  const widths = columns.map((_, i) => Math.max(...cells.map(row => displayWidth(row[i]!))))
  let shown = 1
  for (let used = widths[0]!; shown < widths.length; shown++) {
    used += GAP + widths[shown]!
    if (used > width) break
  }
  const lines = cells.map(row =>
    row
      .slice(0, shown)
      .map((cell, i) => padEnd(cell, widths[i]!))
      .join(' '.repeat(GAP))
      .trimEnd(),
  )
  return `${lines.join('\n')}\n`
}

function flatten(fields: Fields, before = ''): (readonly [string, string])[] {
  return Object.entries(fields).flatMap(([name, value]) =>
    isFields(value)
      ? flatten(value, `${before}${printable(name).replaceAll('_', ' ')} `)
      : [[`${before}${printable(name).replaceAll('_', ' ')}`, cellText(value)] as const],
  )
}

function cellText(value: unknown): string {
  if (value === null || value === undefined) return '-'
  if (Array.isArray(value)) return value.map(cellText).join(', ') || '-'
  if (typeof value !== 'string') return printable(typeof value === 'object' ? JSON.stringify(value) : String(value))
  // People need no seconds.
  const [, day, minute] = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d):\d\d(?:\.\d+)?Z$/.exec(value) ?? []
  return day === undefined ? printable(value) : `${day} ${minute} UTC`
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
