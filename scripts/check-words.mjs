// Checks how pages read: their length, their tables, paragraphs and sentences, and habits that make readers read twice.
// It prints PAGE:LINE and what to do, and exits with 1 if there is anything to do.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'

process.chdir(dirname(dirname(fileURLToPath(import.meta.url))))

/** Words, as `wc -w` counts them. */
const PAGE = 1500
const THROTTLE = 'src/components/throttle/README.md'
const MOST = {
  [THROTTLE]: 600,
  'docs/troubleshooting.md': 3000,
  'docs/destinations.md': 1600,
  'docs/throttle-reference.md': 1600,
}
const SUMS = { docs: 28_300, 'docs/decisions': 6200 }
/** A command writes them. */
const GENERATED = ['docs/destinations.md', 'docs/sources.md']
const CELL = 15
const SENTENCE = 40
/** Sentences. */
const PARAGRAPH = 5

/** Habits of sentences, and what to write instead. The first one is allowed in tables. */
const HABITS = [
  [/(?:^|[:;]\s+)what\b(?![\s\S]*\?$)/i, 'name the subject instead of "what …"'],
  [/\b(about|by|for|from|in|of|to|with|than)\s+what\b/i, 'name the thing instead of "what"'],
  [/\b(tells?|told|telling)\b/i, 'write "reports", "logs", "shows" or "states"'],
  [/\bso\s+that\b/i, 'write two sentences, or "to …"'],
  [/\bso\s+(many|much|few)\b/i, 'name the number or the limit'],
  [/\bsuch\b(?!\s+as\b)/i, 'name the thing instead of "such"'],
  [/\bnone\b/i, 'write "not"'],
  [/\b(?<!\bthere\s)(is|are|was|were|be)\s+no\b(?!\s+longer\b)/i, 'write "is not"'],
  [/\b(that|those)\s+of\b/i, 'repeat the noun instead of "that of"'],
  [/\bof\s+([\w-]+\s+){1,3}of\s+([\w-]+\s+){1,3}of\b/i, 'write a verb instead of a chain of "of"'],
  [/\b(held\s+back|held\s+up|on\s+hold)\b/i, 'write "delayed", "paused" or "blocked"'],
  [/\b(goes|went|go)\s+on\b|\btaken\s+up\b|\banew\b/i, 'write "continues", "applied" or "again"'],
  [/\b(comes?|came)\s+to\s+nothing\b/i, 'write "fails"'],
  [/\blet(s|ting)?\s+go\b/i, 'write "release"'],
  [/\b(judges?|judged)\b/i, 'write "classify" or "decide"'],
  [/\b(troubles|complaints)\b/i, 'write "problems"'],
  [/\b(heirs?|heritage|surroundings|rehears\w+|roster|junction|outlet)\b/i, 'use the term that the field has'],
  [/\bdead\s+letters?\b/i, 'write "rejected event" or "dead-letter queue"'],
]

const problems = []
const report = (page, line, text) => problems.push(`${page}:${line}: ${text}`)
/** Without the parts between comments `NAME begin` and `NAME end`, which a command writes. */
const byHand = text => text.replace(/<!-- ([\w:, ]+) begin -->[\s\S]*?<!-- \1 end -->/g, blank)
const countWords = text => text.split(/\s+/).filter(Boolean).length
const blank = text => text.replace(/[^\n]/g, ' ')

/** The text without pictures and addresses of links; a piece of code is one word. Lines stay where they are. */
const plain = text =>
  text
    .replace(/`[^`]*`/g, code => `code${code.replace(/[^\n]/g, '')}`)
    .replace(/!\[[^\]]*\]\([^)]*\)/g, blank)
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/\*\*|(?<!\w)\*|\*(?!\w)/g, '')

function checkParagraph(page, line, lines) {
  const text = plain(lines.join('\n').replace(/^\s*([-*]|\d+\.) /, blank))
  const sentences = [...text.matchAll(/\S[\s\S]*?(?:[.!?]["')]?(?=\s+["'(]?(?:[A-Z\d]|code\b))|\s*$)/g)]
  for (const { 0: sentence, index } of sentences) {
    const at = line + text.slice(0, index).split('\n').length - 1
    const words = countWords(sentence)
    if (words > SENTENCE) report(page, at, `a sentence of ${words} words: divide it, ${SENTENCE} at most`)
    checkHabits(page, at, sentence.trimEnd())
  }
  const full = sentences.length
  if (full > PARAGRAPH) report(page, line, `a paragraph of ${full} sentences: divide it, ${PARAGRAPH} at most`)
}

function checkHabits(page, line, sentence, habits = HABITS) {
  for (const [habit, advice] of habits) {
    const found = habit.exec(sentence)
    if (!found) continue
    const at = line + sentence.slice(0, found.index).split('\n').length - 1
    report(page, at, `"${found[0].replace(/\s+/g, ' ')}": ${advice}`)
  }
}

function checkRow(page, line, row) {
  for (const cell of plain(row).replaceAll('\\|', ' ').split('|')) {
    const words = countWords(cell)
    if (words > CELL) report(page, line, `a table cell of ${words} words: shorten it, ${CELL} at most`)
    for (const part of cell.trim().split(/(?<=[.?!]) /)) checkHabits(page, line, part, HABITS.slice(1))
  }
}

function checkPage(page) {
  const text = readFileSync(page, 'utf8')
  const most = MOST[page] ?? PAGE
  if (countWords(text) > most) report(page, 1, `a page of ${countWords(text)} words: shorten it, ${most} at most`)
  let paragraph = []
  let skipped
  const end = line => {
    if (paragraph.length > 0) checkParagraph(page, line - paragraph.length, paragraph)
    paragraph = []
  }
  for (const [i, line] of [...text.split('\n'), ''].entries()) {
    if (!skipped && /^\s*([-*]|\d+\.) /.test(line)) end(i + 1)
    const opened = /^\s*(```)/.exec(line)?.[1] ?? (line.startsWith('<') ? '>' : undefined)
    if (skipped || opened || line.trim() === '' || /^[|#]/.test(line)) end(i + 1)
    else paragraph.push(line)
    if (skipped) skipped = (skipped === '>' ? line.endsWith('>') : line.trim() === skipped) ? undefined : skipped
    else if (opened) skipped = opened === '>' && line.endsWith('>') ? undefined : opened
    else if (line.startsWith('|')) checkRow(page, i + 1, line)
  }
}

const listed = folder => execFileSync('git', ['ls-files', `${folder}/*.md`], { encoding: 'utf8' }).split('\n')
const pagesOf = folder => listed(folder).filter(page => existsSync(page) && dirname(page) === folder)
for (const page of ['README.md', 'src/README.md', THROTTLE, ...pagesOf('docs')]) checkPage(page)
for (const [folder, most] of Object.entries(SUMS)) {
  const own = pagesOf(folder).filter(page => !GENERATED.includes(page))
  const sum = own.reduce((words, page) => words + countWords(byHand(readFileSync(page, 'utf8'))), 0)
  if (sum > most) report(folder, 1, `${sum} words in all pages: shorten them, ${most} at most`)
}
process.stderr.write(problems.map(problem => `${problem}\n`).join(''))
if (problems.length > 0) process.exitCode = 1
