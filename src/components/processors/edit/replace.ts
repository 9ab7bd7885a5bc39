import { z } from 'zod'
import { fieldPath, regex } from '../../../core/options/options.js'
import { reaches } from '../../../core/options/reach.js'
import type { Pattern, PatternMatch } from '../../../lib/pattern.js'
import { PatternError } from '../../../lib/pattern.js'
import { changeText, defineStep, Refusal } from './step.js'

const LONGEST = 16 * 1024 * 1024

/** The parts of a replacement: texts, and groups by number. */
type Part = string | number

const GROUP = /\$(?:(\$)|(\d{1,2})|<([^>]*)>)/g

/** Parses `$1`, `$<name>` and `$$`; a string says what is wrong. */
function partsOf(text: string, { groupNames }: Pattern): Part[] | string {
  const parts: Part[] = []
  let from = 0
  for (const found of text.matchAll(GROUP)) {
    parts.push(text.slice(from, found.index))
    from = found.index + found[0].length
    const [, dollar, number, name] = found
    if (dollar) parts.push('$')
    else {
      const group = number === undefined ? groupNames.indexOf(name) : Number(number)
      if (group < 0 || group >= groupNames.length)
        return `the pattern has no group ${found[0]}; write $$ for "$" itself`
      parts.push(group)
    }
  }
  parts.push(text.slice(from))
  return parts.filter(part => part !== '')
}

function replaced(text: string, pattern: Pattern, parts: readonly Part[], isAll: boolean): string | Refusal {
  let made = ''
  let from = 0
  let match: PatternMatch | undefined
  try {
    for (let at = 0; at <= text.length && (match = pattern.exec(text, at)); ) {
      made += text.slice(from, match.start)
      for (const part of parts) {
        const group = typeof part === 'string' ? undefined : match.groups[part]
        made += typeof part === 'string' ? part : group ? text.slice(group[0], group[1]) : ''
        if (made.length > LONGEST) return new Refusal('the text would become longer than 16 MiB')
      }
      from = match.end
      at = match.end > match.start ? match.end : match.end + (text.codePointAt(match.end)! > 0xffff ? 2 : 1)
      if (!isAll) break
    }
  } catch (error) {
    if (!(error instanceof PatternError)) throw error
    return new Refusal(error.message)
  }
  return made + text.slice(from)
}

const one = () =>
  z
    .strictObject({
      field: fieldPath().describe('The text.'),
      pattern: regex().describe('The regular expression, matched in a time proportional to the length of the text.'),
      with: reaches('nothing', z.string().max(10_000))
        .default('')
        .describe('What takes the place of a match. `$1` and `$<name>` are groups of the pattern, `$$` is a dollar.'),
      all: z.boolean().default(true).describe('Whether all matches are replaced; false: the first one.'),
    })
    .transform((given, context) => {
      const parts = partsOf(given.with, given.pattern)
      if (typeof parts !== 'string') return { ...given, parts }
      context.addIssue({ code: 'custom', message: parts, path: ['with'], params: { constant: true } })
      return z.NEVER
    })

export const replace = defineStep({
  name: 'replace',
  schema: one().describe('Replaces what a regular expression matches in a text.'),
  operations: ({ field, pattern, parts, all }) => [changeText(field, text => replaced(text, pattern, parts, all))],
})
