import { z } from 'zod'
import { ARRAY, type FieldReader } from '../../../core/event/field-reader.js'
import { reaches } from '../../../core/options/reach.js'
import { jsonText } from '../../../lib/formats/json-text.js'
import { byField, changeText, changeValue, defineStep, fieldList, Refusal, type StepKind } from './step.js'

/** Text that stays as it is, where that is seen without making a string of it. */
type IsDone = (reader: FieldReader) => boolean

function ofTexts(name: string, text: string, change: (text: string) => string, isDone?: IsDone): StepKind {
  return defineStep({
    name,
    schema: fieldList().describe(text) as z.ZodType<z.output<ReturnType<typeof fieldList>>>,
    operations: given => given.map(path => changeText(path, change, isDone)),
  })
}

/** Whether a plain text is ASCII without one of the letters from `first` on. */
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
/** Code units around the cut in which a character that it would divide is looked for. */
const AROUND = 64
/** Made when it is needed: that takes 20 ms. */
let characters: Intl.Segmenter | undefined

/** The first `most` code points of a text, without a part of a character that is made of several. */
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
    'Cuts texts to a number of characters: `{ .message: 200 }`. A character that Unicode makes of several, such as a letter with an accent or a flag, is never divided.',
  ),
  operations: given => given.map(([path, most]) => changeText(path, text => truncated(text, most))),
})

const MOST_ITEMS = 10_000
const separator = () => reaches('nothing', z.string().max(1000))

export const split = defineStep({
  name: 'split',
  schema: byField(separator().refine(text => text !== '', { error: 'must not be empty' })).describe(
    `Divides texts into arrays of texts, at a separator: \`{ .tags: ',' }\`. A text of more than ${MOST_ITEMS} parts is handled as set by \`on_error\`.`,
  ),
  operations: given =>
    given.map(([path, by]) =>
      changeText(path, text => {
        const items = text.split(by, MOST_ITEMS + 1)
        return items.length > MOST_ITEMS ? new Refusal(`${path.text} has more than ${MOST_ITEMS} parts`) : items
      }),
    ),
})

export const join = defineStep({
  name: 'join',
  schema: byField(separator()).describe(
    "Joins the items of arrays to texts, with a separator: `{ .tags: ', ' }`. An item that is no text is written as JSON.",
  ),
  operations: given =>
    given.map(([path, by]) =>
      changeValue(path, ({ reader, editor, field }) => {
        if (reader.kind !== ARRAY) return `${path.text} is no array`
        const items = reader.value() as readonly unknown[]
        editor.set(field, items.map(item => (typeof item === 'string' ? item : jsonText(item))).join(by))
        return undefined
      }),
    ),
})
