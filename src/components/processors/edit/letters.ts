import type { z } from 'zod'
import type { FieldReader } from '../../../core/event/field-reader.js'
import { changeText, defineStep, fieldList, type StepKind } from './step.js'

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
