import { z } from 'zod'
import { ARRAY_VALUE, type FieldReader } from '../../../core/event/field-reader.js'
import { fieldPath, regex } from '../../../core/options/options.js'
import { reaches } from '../../../core/options/reach.js'
import { exactJson, parseExact } from '../../../lib/formats/normal-json.js'
import { type Pattern, PatternError, type PatternMatch } from '../../../lib/pattern.js'
import { byField, changeText, changeValue, defineStep, fieldList, type StepKind, StepRefusal } from './step.js'

/** Without creating a string, detects text that needs no change. */
type IsDone = (reader: FieldReader) => boolean

function ofTexts(name: string, text: string, change: (text: string) => string, isDone?: IsDone): StepKind {
  return defineStep({
    name,
    schema: fieldList().describe(text) as z.ZodType<z.output<ReturnType<typeof fieldList>>>,
    operations: given => given.map(path => changeText(path, change, isDone)),
  })
}

/** Whether a text is ASCII, without any of the 26 letters from `first` on. False if the text is not plain. */
const hasNone =
  (first: number): IsDone =>
  ({ plain, bytes, start, end }) => {
    if (!plain) return false
    for (let p = start; p < end; p++) {
      const byte = bytes[p]!
      if (byte >= 0x80 || (byte >= first && byte < first + 26)) return false
    }
    return true
  }

const isTrimmed: IsDone = ({ plain, bytes, start, end }) =>
  plain && (start === end || (isVisible(bytes[start]!) && isVisible(bytes[end - 1]!)))

const isVisible = (byte: number) => byte > 0x20 && byte < 0x7f

export const lower = ofTexts('lower', 'Writes texts in lower case.', text => text.toLowerCase(), hasNone(0x41))
export const upper = ofTexts('upper', 'Writes texts in upper case.', text => text.toUpperCase(), hasNone(0x61))
export const trim = ofTexts('trim', 'Removes white space around texts.', text => text.trim(), isTrimmed)

const MOST_CHARACTERS = 1_000_000
/** Code units to search before and after a cut, to find a character that the cut would divide. */
const AROUND = 64
/** Created only when it is needed, because creating it takes 20 ms. */
let characters: Intl.Segmenter | undefined

/** Returns at most the first `most` code points of a text. Does not divide a grapheme. */
export function truncated(text: string, most: number): string {
  if (text.length <= most) return text
  let at = 0
  for (let count = 0; count < most && at < text.length; count++) at += text.codePointAt(at)! > 0xffff ? 2 : 1
  if (at >= text.length) return text
  if (text.charCodeAt(at) < 0x80 && text.charCodeAt(at - 1) !== 0x0d) return text.slice(0, at)
  const from = Math.max(0, at - AROUND)
  characters ??= new Intl.Segmenter(undefined, { granularity: 'grapheme' })
  const whole = characters.segment(text.slice(from, at + AROUND)).containing(at - from)!
  return text.slice(0, from + whole.index)
}

export const truncate = defineStep({
  name: 'truncate',
  schema: byField(z.int().min(1).max(MOST_CHARACTERS)).describe(
    'Truncates texts to a number of characters: `{ .message: 200 }`. Characters that consist of several code points, such as flag emojis, are never divided.',
  ),
  operations: given => given.map(([path, most]) => changeText(path, text => truncated(text, most))),
})

const MOST_ITEMS = 10_000
const separator = () => reaches('nothing', z.string().max(1000))

export const split = defineStep({
  name: 'split',
  schema: byField(separator().refine(text => text !== '', { error: 'must not be empty' })).describe(
    `Splits texts into arrays at a separator: \`{ .tags: ',' }\`. A text of more than ${MOST_ITEMS} parts is handled as set by \`on_error\`.`,
  ),
  operations: given =>
    given.map(([path, by]) =>
      changeText(path, text => {
        const items = text.split(by, MOST_ITEMS + 1)
        return items.length > MOST_ITEMS ? new StepRefusal(`${path.text} has more than ${MOST_ITEMS} parts`) : items
      }),
    ),
})

export const join = defineStep({
  name: 'join',
  schema: byField(separator()).describe(
    "Joins the items of arrays into texts, with a separator: `{ .tags: ', ' }`. Items other than strings are written as JSON.",
  ),
  operations: given =>
    given.map(([path, by]) =>
      changeValue(path, ({ reader, editor, field }) => {
        if (reader.kind !== ARRAY_VALUE) return `${path.text} is not an array`
        const items = parseExact(reader.json()) as readonly unknown[]
        editor.set(field, items.map(item => (typeof item === 'string' ? item : exactJson(item))).join(by))
        return undefined
      }),
    ),
})

const LONGEST = 16 * 1024 * 1024

/** A part of a replacement: a text, or the number of a group. */
type Part = string | number

const GROUP = /\$(?:(\$)|(\d{1,2})|<([^>]*)>)/g

/** Parses a replacement with `$1`, `$<name>` and `$$`. Returns an error message if it is invalid. */
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

function replaced(text: string, pattern: Pattern, parts: readonly Part[], isAll: boolean): string | StepRefusal {
  let made = ''
  let from = 0
  let match: PatternMatch | undefined
  try {
    for (let at = 0; at <= text.length && (match = pattern.exec(text, at)); ) {
      made += text.slice(from, match.start)
      for (const part of parts) {
        const group = typeof part === 'string' ? undefined : match.groups[part]
        made += typeof part === 'string' ? part : group ? text.slice(group[0], group[1]) : ''
        if (made.length > LONGEST) return new StepRefusal('the text would become longer than 16 MiB')
      }
      from = match.end
      at = match.end > match.start ? match.end : match.end + (text.codePointAt(match.end)! > 0xffff ? 2 : 1)
      if (!isAll) break
    }
  } catch (error) {
    if (!(error instanceof PatternError)) throw error
    return new StepRefusal(error.message)
  }
  return made + text.slice(from)
}

const one = () =>
  z
    .strictObject({
      field: fieldPath().describe('Field with the text.'),
      pattern: regex().describe(
        'Regular expression to find. Matching takes time proportional to the length of the text.',
      ),
      with: reaches('nothing', z.string().max(10_000))
        .default('')
        .describe('Replacement of a match. `$1` and `$<name>` are groups of the pattern, `$$` is a dollar sign.'),
      all: z.boolean().default(true).describe('Whether to replace all matches; false: only the first one.'),
    })
    .transform((given, context) => {
      const parts = partsOf(given.with, given.pattern)
      if (typeof parts !== 'string') return { ...given, parts }
      context.addIssue({ code: 'custom', message: parts, path: ['with'], params: { constant: true } })
      return z.NEVER
    })

export const replaceStep = defineStep({
  name: 'replace',
  schema: one().describe('Replaces the matches of a regular expression in a text.'),
  operations: ({ field, pattern, parts, all }) => [changeText(field, text => replaced(text, pattern, parts, all))],
})
