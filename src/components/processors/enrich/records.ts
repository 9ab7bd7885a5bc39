import { readCsvTable } from '../../../lib/formats/csv-text.js'
import { TableError } from './table.js'

/** A row of a file: the texts of its key columns, and the columns that it puts into events. */
export interface TableRecord {
  /** In the file, from 1; undefined: not known. */
  readonly line: number | undefined
  readonly keys: readonly string[]
  readonly columns: Readonly<Record<string, unknown>>
}

/** Which columns of a file are the key, and which are taken; undefined: the first ones, and all others. */
export interface Columns {
  readonly keys: number
  readonly key: readonly string[] | undefined
  readonly taken: readonly string[] | undefined
}

/** Reads a CSV file whose first record names the columns. Values are strings; empty ones are left out. */
export function csvRecords(text: string, columns: Columns): TableRecord[] {
  const read = readCsvTable(text)
  if ('message' in read) throw new TableError(read.message, read.line)
  const { names, records } = read
  const key = columns.key ?? names.slice(0, columns.keys)
  if (key.length < columns.keys)
    throw new TableError(`has ${names.length} columns, and ${columns.keys} must be the key`)
  for (const name of [...key, ...(columns.taken ?? [])]) {
    if (!names.includes(name)) throw new TableError(`has no column "${name}"; it has ${names.join(', ')}`)
  }
  const keys = key.map(name => names.indexOf(name))
  const taken = (columns.taken ?? names.filter(name => !key.includes(name))).map(
    name => [name, names.indexOf(name)] as const,
  )
  return records.map(({ line, fields }) => ({
    line,
    keys: keys.map(n => fields[n]!),
    columns: Object.fromEntries(taken.flatMap(([name, n]) => (fields[n] === '' ? [] : [[name, fields[n]]]))),
  }))
}

/** Reads a JSON file: a list of objects, or an object whose names are the keys of the objects in it. */
export function jsonRecords(text: string, columns: Columns): TableRecord[] {
  const value = parsed(text)
  if (Array.isArray(value)) {
    const key = columns.key ?? Object.keys(objectOf(value[0] ?? {}, 'item 0')).slice(0, columns.keys)
    return value.map((item, n) => {
      const object = objectOf(item, `item ${n}`)
      const missing = key.find(name => keyText(object[name]) === undefined)
      if (missing !== undefined || key.length < columns.keys)
        throw new TableError(`item ${n} has no text or number "${missing ?? 'of a key'}"`)
      return { line: undefined, keys: key.map(name => keyText(object[name])!), columns: taken(object, columns, key) }
    })
  }
  if (columns.keys > 1 || columns.key) throw new TableError('must be a list of objects where `column` names its key')
  return Object.entries(objectOf(value, 'it')).map(([name, item]) => {
    return { line: undefined, keys: [name], columns: taken(objectOf(item, `"${name}"`), columns, []) }
  })
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new TableError(`is not valid JSON: ${(error as Error).message}`)
  }
}

function objectOf(value: unknown, what: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  throw new TableError(`${what} is not an object`)
}

function keyText(value: unknown): string | undefined {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? String(value)
    : undefined
}

function taken(object: Record<string, unknown>, columns: Columns, key: readonly string[]): Record<string, unknown> {
  const names = columns.taken ?? Object.keys(object).filter(name => !key.includes(name))
  return Object.fromEntries(names.flatMap(name => (Object.hasOwn(object, name) ? [[name, object[name]]] : [])))
}
