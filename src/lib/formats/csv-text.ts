import type { Steps } from '../steps.js'

/** Reads a whole text of CSV, as in RFC 4180. */

export interface CsvRecord {
  /** The line where the record begins, from 1. */
  readonly line: number
  readonly fields: string[]
}

/** A problem in a text. `line` counts from 1. */
export interface CsvProblem {
  readonly line: number
  /** The index of the record, if the problem is in a record after the header. */
  readonly record?: number
  readonly message: string
}

/** A table whose first record names its columns. */
export interface CsvTable {
  readonly names: readonly string[]
  readonly records: readonly CsvRecord[]
}

const LINE = /\r?\n/
/** Matches a field and the delimiter after it. Inside a quoted field, each quote is doubled. */
const FIELD = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/y

/** Maximum counts. More would take too much memory. */
const MOST_VALUES = 8_000_000
const MOST_RECORDS = 2_000_000
const STEP_RECORDS = 1000

/** Reads a table with a header. Each record has a field for each column, without surrounding white space. */
export function* readCsvTable(text: string): Steps<CsvTable | CsvProblem> {
  const all = yield* recordsOf(text)
  if (!all) return { line: 1, message: `has more than ${MOST_RECORDS} rows or ${MOST_VALUES} values` }
  const [header] = all
  if (!header) return { line: 1, message: 'is empty; the first line must name the columns' }
  const quote = openQuoteOf(text)
  if (quote !== undefined) return { line: quote, message: 'has a quote that is never closed' }
  const names = header.fields
  const message = problemOf(names)
  if (message !== undefined) return { line: header.line, message }
  const records = all.slice(1)
  const record = records.findIndex(({ fields }) => fields.length !== names.length)
  if (record >= 0) {
    const { line, fields } = records[record]!
    return { line, record, message: `has ${fields.length} values; the header has ${names.length}` }
  }
  return { names, records }
}

function problemOf(names: readonly string[]): string | undefined {
  const seen = new Set<string>()
  const twice = names.find(name => seen.size === seen.add(name).size)
  if (twice !== undefined) return `names the column "${twice}" twice`
  return names.some(name => /[;\t]/.test(name)) ? 'separate the columns by commas' : undefined
}

/** Returns undefined if there are too many records or values. */
function* recordsOf(text: string): Steps<CsvRecord[] | undefined> {
  const records: CsvRecord[] = []
  let values = 0
  let line = 1
  for (let at = 0; at < text.length; ) {
    const record: CsvRecord = { line, fields: [] }
    let ending = ','
    while (ending === ',') {
      if (++values > MOST_VALUES || records.length > MOST_RECORDS) return undefined
      FIELD.lastIndex = at
      const match = FIELD.exec(text)
      // FIELD does not match a field with a quote inside or an unclosed quote. Takes the rest of the line.
      const end = match ? FIELD.lastIndex : endOfLine(text, at)
      const [whole, quoted, plain] = match ?? [text.slice(at, end)]
      record.fields.push((quoted?.replaceAll('""', '"') ?? plain ?? whole).trim())
      ending = match?.[3] ?? '\n'
      if (whole.includes('\n')) line += whole.split(LINE).length - 1
      at = end
    }
    if (record.fields.length > 1 || record.fields[0] !== '') records.push(record)
    if (records.length % STEP_RECORDS === 0) yield
  }
  return records
}

function endOfLine(text: string, at: number): number {
  const end = text.indexOf('\n', at)
  return end < 0 ? text.length : end + 1
}

/** Returns the line of a quote that is never closed; undefined if there is none. */
function openQuoteOf(text: string): number | undefined {
  let isOpen = false
  for (let at = text.indexOf('"'); at >= 0; at = text.indexOf('"', at + 1)) isOpen = !isOpen
  return isOpen ? text.slice(0, text.lastIndexOf('"')).split(LINE).length : undefined
}
