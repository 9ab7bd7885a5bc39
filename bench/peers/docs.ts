import { readFileSync, writeFileSync } from 'node:fs'

const BEGIN = '<!-- bench:peers begin -->'
const END = '<!-- bench:peers end -->'

/** Replaces what is between the two markers of a page. */
export function writeBetweenMarkers(path: string, text: string): void {
  const page = readFileSync(path, 'utf8')
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)]
  if (begin < 0 || end < begin) throw new Error(`${path} lacks the lines "${BEGIN}" and "${END}"`)
  writeFileSync(path, `${page.slice(0, begin + BEGIN.length)}\n\n${text.trim()}\n\n${page.slice(end)}`)
}
