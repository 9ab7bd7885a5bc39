import { LINE, type Written, type WrittenRules } from './written-rules.js'

/** Options whose values are numbers if they look like them. */
const NUMBERS = new Set(['limit', 'limit_bytes', 'burst'])
const WHOLE = /^\d+$/

/** Reads CSV as in RFC 4180: the first record names the options, each further one is a rule. */
export function readCsv(text: string): WrittenRules {
  const [header, ...records] = recordsOf(text)
  if (!header) return { problems: [{ line: 1, path: [], message: 'is empty; the first line must name the columns' }] }
  const quote = openQuoteOf(text)
  if (quote !== undefined) return { problems: [{ line: quote, path: [], message: 'has a quote that is never closed' }] }
  const names = header.fields.map(name => name.trim())
  const message = problemOf(names)
  if (message !== undefined) return { problems: [{ line: header.line, path: [], message }] }
  const rules: Written[] = []
  for (const { line, fields } of records) {
    if (fields.length !== names.length) {
      const message = `has ${fields.length} values; the header has ${names.length}`
      return { problems: [{ line, path: [rules.length], message }] }
    }
    const given = names.flatMap((name, n): [string, unknown][] => {
      const value = fields[n]!.trim()
      if (value === '') return []
      return [[name, NUMBERS.has(name) && WHOLE.test(value) ? Number(value) : value]]
    })
    rules.push({ value: Object.fromEntries(given), lineOf: () => line })
  }
  return { rules }
}

/** What is wrong with the names of the columns. */
function problemOf(names: readonly string[]): string | undefined {
  const twice = names.find((name, n) => names.indexOf(name) !== n)
  if (twice !== undefined) return `names the column "${twice}" twice`
  return names.some(name => /[;\t]/.test(name)) ? 'separate the columns by commas' : undefined
}

interface CsvRecord {
  readonly line: number
  readonly fields: string[]
}

/** A field in quotes, in which quotes are doubled, or one without; then what ends it. */
const FIELD = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/y

function recordsOf(text: string): CsvRecord[] {
  const records: CsvRecord[] = []
  let line = 1
  for (let at = 0; at < text.length; ) {
    const record: CsvRecord = { line, fields: [] }
    let ending = ','
    while (ending === ',') {
      FIELD.lastIndex = at
      const match = FIELD.exec(text)
      // A quote within a field, or one that is never closed: the rest of the line is the field.
      const end = match ? FIELD.lastIndex : endOfLine(text, at)
      const [whole, quoted, plain] = match ?? [text.slice(at, end)]
      record.fields.push(quoted?.replaceAll('""', '"') ?? plain ?? whole.trimEnd())
      ending = match?.[3] ?? '\n'
      line += whole.split(LINE).length - 1
      at = end
    }
    if (record.fields.length > 1 || record.fields[0]!.trim() !== '') records.push(record)
  }
  return records
}

function endOfLine(text: string, at: number): number {
  const end = text.indexOf('\n', at)
  return end < 0 ? text.length : end + 1
}

/** The line of a quote that is never closed. */
function openQuoteOf(text: string): number | undefined {
  const quotes = [...text.matchAll(/"/g)]
  return quotes.length % 2 === 0 ? undefined : text.slice(0, quotes.at(-1)!.index).split(LINE).length
}
