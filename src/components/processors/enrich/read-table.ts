import { isUtf8 } from 'node:buffer'
import type { Stats } from 'node:fs'
import { resolve } from 'node:path'
import { errorText, type FileProblem } from '../../../core/errors.js'
import { parsedNumber } from '../../../core/event/field-reader.js'
import { type Reach, readWithin } from '../../../core/options/reach.js'
import { readFileSync, statSync } from '../../../lib/files/disk/disk.js'
import { notWhole } from '../../../lib/files/read-regular.js'
import { readCsvTable } from '../../../lib/formats/csv-text.js'
import { jsonText } from '../../../lib/formats/json-text.js'
import { exactJson, parseExact } from '../../../lib/formats/normal-json.js'
import { atOnce, inSlices, mapped, type Steps } from '../../../lib/steps.js'
import { openDatabase } from './maxmind.js'
import type { EnrichOptions } from './options.js'
import { addressKey, cidrKeys, Ranges, type RowRange } from './ranges.js'
import { ExactTable, type LookupTable, SearchedTable, TableError, TableRows } from './table.js'

const MIB = 1024 * 1024
const LARGEST_FILE = 64 * MIB
/** Maximum bytes of a MaxMind database. It is searched in place. */
const LARGEST_DATABASE = 512 * MIB

export type TableOptions = Pick<EnrichOptions, 'match' | 'column' | 'columns' | 'ignore_case'>

export type ReadTable = LookupTable | FileProblem

/** Reads the file at `path`, which `reach` must allow. */
export async function readTable(path: string, options: TableOptions, reach: Reach | undefined): Promise<ReadTable> {
  try {
    const { bytes } = await readWithin(reach, path, stats => fileProblem(path, stats))
    return await inSlices(tableOf(path, bytes, options))
  } catch (error) {
    return problemOf(path, error)
  }
}

export function tableProblems(options: EnrichOptions): FileProblem[] {
  if (options.table === undefined) return []
  // Problems show the absolute path, because a relative path depends on the current directory.
  const path = resolve(options.table)
  try {
    const problem = fileProblem(path, statSync(path))
    if (problem) throw problem
    atOnce(tableOf(path, readFileSync(path), options))
    return []
  } catch (error) {
    return [problemOf(path, error)]
  }
}

function problemOf(file: string, error: unknown): FileProblem {
  const place = { option: 'table', file, path: [] }
  if (error instanceof TableError) return { ...place, line: error.line, message: error.message }
  return { ...place, line: 1, message: `cannot be read: ${errorText(error)}`, isMissing: true }
}

const isDatabase = (path: string) => /\.mmdb$/i.test(path)

function fileProblem(path: string, stats: Stats): TableError | undefined {
  const wrong = notWhole(stats, isDatabase(path) ? LARGEST_DATABASE : LARGEST_FILE)
  return wrong === undefined ? undefined : new TableError(wrong)
}

/** Throws TableError. */
export function* tableOf(path: string, bytes: Buffer, options: TableOptions): Steps<LookupTable> {
  if (isDatabase(path)) return openDatabase(bytes, options.columns)
  if (!isUtf8(bytes)) throw new TableError('is not valid UTF-8')
  const text = bytes.toString().replace(/^\uFEFF/, '')
  const columns: Columns = {
    keys: options.match === 'range' ? 2 : 1,
    key: typeof options.column === 'string' ? [options.column] : options.column,
    taken: options.columns,
  }
  const records = yield* /\.json$/i.test(path) ? jsonRecords(text, columns) : csvRecords(text, columns)
  const rows = yield* TableRows.of(yield* mapped(records, ({ row }) => row))
  if (options.match === 'exact') return yield* exactTable(records, rows, options.ignore_case)
  return yield* options.match === 'cidr' ? cidrTable(records, rows) : rangeTable(records, rows)
}

function* exactTable(records: readonly TableRecord[], rows: TableRows, ignoresCase: boolean): Steps<LookupTable> {
  const places = new Map<string, number>()
  yield* mapped(records, ({ keys, line }, n) => {
    const key = ignoresCase ? keys[0]!.toLowerCase() : keys[0]!
    const before = places.get(key)
    if (before !== undefined) {
      const where = records[before]!.line === undefined ? '' : ` of line ${records[before]!.line}`
      throw new TableError(`repeats the key "${key}"${where}`, line)
    }
    places.set(key, n)
  })
  return new ExactTable(rows, places, ignoresCase)
}

function* cidrTable(records: readonly TableRecord[], rows: TableRows): Steps<LookupTable> {
  const ranges = rangesOf(
    yield* mapped(records, ({ keys: [text], line = 1 }, row) => {
      const keys = cidrKeys(text!)
      if (!keys) throw new TableError(`"${text}" is neither an IP address nor a range such as 10.0.0.0/8`, line)
      return { ...keys, row, line }
    }),
  )
  return new SearchedTable(rows.size, text => rows.at(addressRow(ranges, text)))
}

function addressRow(ranges: Ranges<string>, text: string): number {
  const key = addressKey(text)
  return key === undefined ? -1 : ranges.find(key)
}

function* rangeTable(records: readonly TableRecord[], rows: TableRows): Steps<LookupTable> {
  const [first] = records
  if (first && addressKey(first.keys[0]!) !== undefined) {
    const ranges = rangesOf(yield* bounds(records, addressKey, 'an IP address'))
    return new SearchedTable(rows.size, text => rows.at(addressRow(ranges, text)))
  }
  const number = (text: string) => {
    const value = parsedNumber(text)
    return Number.isNaN(value) ? undefined : value
  }
  const ranges = rangesOf(yield* bounds(records, number, 'a number'))
  return new SearchedTable(rows.size, text => {
    const key = number(text)
    return key === undefined ? undefined : rows.at(ranges.find(key))
  })
}

function* bounds<K extends string | number>(
  records: readonly TableRecord[],
  keyOf: (text: string) => K | undefined,
  what: string,
): Steps<RowRange<K>[]> {
  return yield* mapped(records, ({ keys, line = 1 }, row) => {
    const [low, high] = keys.map(keyOf)
    const wrong = low === undefined ? keys[0] : high === undefined ? keys[1] : undefined
    if (wrong !== undefined) throw new TableError(`"${wrong}" is not ${what}`, line)
    if (high! < low!) throw new TableError(`the end of the range, ${keys[1]}, is before its start, ${keys[0]}`, line)
    return { low: low!, high: high!, row, line }
  })
}

function rangesOf<K extends string | number>(given: readonly RowRange<K>[]): Ranges<K> {
  const ranges = Ranges.of(given)
  if (ranges instanceof Ranges) return ranges
  const [a, b] = ranges
  const [first, second] = a.row < b.row ? [a, b] : [b, a]
  throw new TableError(`has a range that overlaps the range in line ${first.line}, but is not inside it`, second.line)
}

/** A row of a file. `keys`: the texts of the key columns. `row`: the columns that go into events, as a JSON object. */
interface TableRecord {
  /** The line in the file, from 1; undefined: unknown. */
  readonly line: number | undefined
  readonly keys: readonly string[]
  readonly row: string
}

/**
 * `keys`: number of columns of the key. `key`: names of these columns; undefined: the first ones. `taken`: names of the
 * columns for events; undefined: all others.
 */
interface Columns {
  readonly keys: number
  readonly key: readonly string[] | undefined
  readonly taken: readonly string[] | undefined
}

/** Reads a CSV file whose first record names the columns. All values are strings. Empty values are left out. */
function* csvRecords(text: string, columns: Columns): Steps<TableRecord[]> {
  const read = yield* readCsvTable(text)
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
  return yield* mapped(records, ({ line, fields }) => ({
    line,
    keys: keys.map(n => fields[n]!),
    row: jsonText(Object.fromEntries(taken.flatMap(([name, n]) => (fields[n] === '' ? [] : [[name, fields[n]]])))),
  }))
}

/** Reads a JSON file: a list of objects, or an object that maps keys to objects. */
function* jsonRecords(text: string, columns: Columns): Steps<TableRecord[]> {
  const value = parsed(text)
  if (Array.isArray(value)) {
    const key = columns.key ?? Object.keys(objectOf(value[0] ?? {}, 'item 0')).slice(0, columns.keys)
    return yield* mapped(value, (item, n) => {
      const object = objectOf(item, `item ${n}`)
      const missing = key.find(name => keyText(object[name]) === undefined)
      if (missing !== undefined || key.length < columns.keys)
        throw new TableError(`item ${n}: "${missing ?? 'the key'}" is missing, or is neither a text nor a number`)
      return { line: undefined, keys: key.map(name => keyText(object[name])!), row: taken(object, columns, key) }
    })
  }
  if (columns.keys > 1 || columns.key)
    throw new TableError('must be a list of objects, because `column` or `match: range` is set')
  return yield* mapped(Object.entries(objectOf(value, 'it')), ([name, item]) => {
    return { line: undefined, keys: [name], row: taken(objectOf(item, `"${name}"`), columns, []) }
  })
}

function parsed(text: string): unknown {
  try {
    return parseExact(text)
  } catch (error) {
    throw new TableError(`is not valid JSON: ${(error as Error).message}`)
  }
}

function objectOf(value: unknown, what: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  throw new TableError(`${what} is not an object`)
}

function keyText(value: unknown): string | undefined {
  return typeof value === 'object' || value === undefined ? undefined : String(value)
}

function taken(object: Record<string, unknown>, columns: Columns, key: readonly string[]): string {
  const names = columns.taken ?? Object.keys(object).filter(name => !key.includes(name))
  return exactJson(
    Object.fromEntries(names.flatMap(name => (Object.hasOwn(object, name) ? [[name, object[name]]] : []))),
  )
}
