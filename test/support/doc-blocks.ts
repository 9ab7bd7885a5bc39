import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkout } from './checkout.js'

/**
 * What stands between fences in the pages for users. The words behind the language say what is done with it. README.md,
 * which many read as a text, has them in a remark on the line before the fence, as in `<!-- run -->`:
 *
 *   yaml                      a whole configuration: has to be valid
 *   yaml part [SECTION]       a part of one; with SECTION what is within that
 *   yaml prometheus           for Prometheus: promtool has to agree
 *   yaml rules                rules for Prometheus, likewise
 *   yaml … from=PATH          the same, and the lines are in that file of the repository
 *   yaml … file=NAME          the same, and the commands of the page find it by that name
 *   sh run                    commands that are run, one after the other, in a folder of the page
 *   sh steps                  commands that are run by test/ci/five-steps.test.ts
 *   sh tree                   commands that are run in a booted tree (test/systemd)
 *   sh norun REASON           commands that are not run; those of sluice have to be understood by it
 *   condition                 a condition, and events for which it `holds` or `fails`: test/unit/core/condition/page.test.ts
 *   text output               what the commands before have printed, with … for anything
 *   text, json, js, ts, ini   to look at; js file=NAME in docs/plugins.md is run by test/ci/plugins.test.ts
 */
export interface DocBlock {
  readonly page: string
  /** Of the fence. */
  readonly line: number
  readonly language: string
  readonly words: readonly string[]
  readonly text: string
}

export const place = ({ page, line }: DocBlock) => `${page}:${line}`

const wordAfter = ({ words }: DocBlock, name: string) =>
  words.find(word => word.startsWith(`${name}=`))?.slice(name.length + 1)

/** The name that a block has behind `file=`. */
export const fileName = (block: DocBlock): string | undefined => wordAfter(block, 'file')

/** The file that a block quotes, behind `from=`. */
export const quotedFile = (block: DocBlock): string | undefined => wordAfter(block, 'from')

/** `README.md` and the pages in `docs`. */
export function docPages(): string[] {
  const pages = readdirSync(join(checkout, 'docs')).filter(name => name.endsWith('.md'))
  return ['README.md', ...pages.sort().map(name => `docs/${name}`)]
}

export function docBlocks(page: string): DocBlock[] {
  const blocks: DocBlock[] = []
  let open: { line: number; info: string; text: string[] } | undefined
  /** Of the line before. */
  let remark = ''
  for (const [i, line] of readFileSync(join(checkout, page), 'utf8').split('\n').entries()) {
    const fence = /^```(.*)$/.exec(line)
    if (!open && fence) open = { line: i + 1, info: `${fence[1]!.trim()} ${remark}`.trim(), text: [] }
    else if (open && fence) {
      const [language = '', ...words] = open.info.split(/\s+/)
      blocks.push({ page, line: open.line, language, words, text: `${open.text.join('\n')}\n` })
      open = undefined
    } else open?.text.push(line)
    remark = /^<!-- (.*) -->$/.exec(line)?.[1] ?? ''
  }
  if (open) throw new Error(`${page}:${open.line}: this fence does not end`)
  return blocks
}

/** Commands, one a line: what ends with a backslash goes on, and remarks are left out. */
export function commandLines(text: string): string[] {
  const lines = text.replaceAll('\\\n', ' ').split('\n')
  return lines.map(line => line.replace(/(^|\s)# .*$/, '').trim()).filter(Boolean)
}

/** The words of a command of a shell: what is quoted is one, and what only a shell understands ends it. */
function shellWords(text: string): string[] {
  const words: string[] = []
  let word: string | undefined
  for (let i = 0; i < text.length; i++) {
    const character = text[i]!
    if (character === "'" || character === '"') {
      const end = text.indexOf(character, i + 1)
      word = (word ?? '') + text.slice(i + 1, end)
      i = end
    } else if (/\s/.test(character)) {
      if (word !== undefined) words.push(word)
      word = undefined
    } else if (/[<>]/.test(character) && /^\d$/.test(word ?? '')) return words
    else if (/[|;&<>)`]/.test(character)) break
    else word = (word ?? '') + character
  }
  return word === undefined ? words : [...words, word]
}

/** The arguments of each call of sluice in a command line. */
export function sluiceCalls(line: string): string[][] {
  const calls = [...line.matchAll(/(?:^|[;&|(]|\bdo\b|\bthen\b)\s*(?:\w+=\S*\s+)*sluice(?= |$)/g)]
  return calls.map(({ index, 0: found }) => shellWords(line.slice(index + found.length)))
}
