import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkout } from '../test/support/checkout.js'

/** The page that the benchmarks write their tables into. */
export const PERFORMANCE_PAGE = join(checkout, 'docs/performance.md')

const COLUMNS = 120

/** Replaces what is between the two markers of a script in a page. */
export function writeBetweenMarkers(path: string, script: string, text: string): void {
  const [before, after] = [`<!-- ${script} begin -->`, `<!-- ${script} end -->`]
  const page = readFileSync(path, 'utf8')
  const [begin, end] = [page.indexOf(before), page.indexOf(after)]
  if (begin < 0 || end < begin) throw new Error(`${path} lacks the lines "${before}" and "${after}"`)
  writeFileSync(
    path,
    `${page.slice(0, begin + before.length)}\n\n${text.trim().split('\n').map(wrap).join('\n')}\n\n${page.slice(end)}`,
  )
}

/** Breaks a line of prose at 120 columns, as in all pages; tables stay as wide as they are. */
function wrap(line: string): string {
  if (line.startsWith('|')) return line
  const indent = line.startsWith('- ') ? '  ' : ''
  let column = 0
  return line.replace(/(\s*)(\S+)/g, (_, space: string, word: string) => {
    if (column > 0 && column + space.length + word.length > COLUMNS) {
      column = indent.length + word.length
      return `\n${indent}${word}`
    }
    column += space.length + word.length
    return space + word
  })
}
