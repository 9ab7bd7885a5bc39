import type { z } from 'zod'
import { changeText, defineStep, fieldList, type StepKind } from './step.js'

function ofTexts(name: string, text: string, change: (text: string) => string): StepKind {
  return defineStep({
    name,
    schema: fieldList().describe(text) as z.ZodType<z.output<ReturnType<typeof fieldList>>>,
    operations: given => given.map(path => changeText(path, change)),
  })
}

export const lower = ofTexts('lower', 'Writes texts in lower case.', text => text.toLowerCase())
export const upper = ofTexts('upper', 'Writes texts in upper case.', text => text.toUpperCase())
export const trim = ofTexts('trim', 'Removes white space around texts.', text => text.trim())
