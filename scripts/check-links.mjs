// Prints each link of a page that leads to no file or to no heading, and exits with 1 if there is one.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

process.chdir(dirname(dirname(fileURLToPath(import.meta.url))))
const pages = execFileSync('git', ['ls-files', '*.md'], { encoding: 'utf8' }).split('\n').filter(existsSync)

/** The names that a link may have behind `#`: those of headings, and those that the page gives itself. */
function anchorsOf(path) {
  const text = readFileSync(path, 'utf8')
  const headings = [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    heading
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  )
  return new Set([...headings, ...[...text.matchAll(/id="([^"]+)"/g)].map(([, id]) => id)])
}

function problemOf(page, link) {
  const [file, anchor] = link.split('#')
  const path = file === '' ? page : join(dirname(page), file)
  if (!existsSync(path)) return 'there is no such file'
  if (anchor !== undefined && !anchorsOf(path).has(anchor)) return 'there is no such heading'
}

for (const page of pages) {
  const text = readFileSync(page, 'utf8').replace(/^```.*?^```$/gms, '')
  for (const [, link] of text.matchAll(/\]\(([^)]+)\)/g)) {
    const problem = /^https?:/.test(link) ? undefined : problemOf(page, link)
    if (!problem) continue
    process.stderr.write(`${page}: ${link}: ${problem}\n`)
    process.exitCode = 1
  }
}
