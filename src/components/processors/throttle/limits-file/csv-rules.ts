import { readCsvTable } from '../../../../lib/formats/csv-text.js'
import type { WrittenRules } from './written-rules.js'

/** Options whose values are numbers if they look like them. */
const NUMBERS = new Set(['limit', 'limit_bytes', 'burst'])
const WHOLE = /^\d+$/

/** Reads CSV: the first record names the options, each further one is a rule. */
export function readCsv(text: string): WrittenRules {
  const read = readCsvTable(text)
  if ('message' in read) {
    const { line, record, message } = read
    return { problems: [{ line, path: record === undefined ? [] : [record], message }] }
  }
  const rules = read.records.map(({ line, fields }) => {
    const given = read.names.flatMap((name, n): [string, unknown][] => {
      const value = fields[n]!
      if (value === '') return []
      return [[name, NUMBERS.has(name) && WHOLE.test(value) ? Number(value) : value]]
    })
    return { value: Object.fromEntries(given), lineOf: () => line }
  })
  return { rules }
}
