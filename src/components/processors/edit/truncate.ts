import { z } from 'zod'
import { byField, changeText, defineStep } from './step.js'

const MOST = 1_000_000
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
  schema: byField(z.int().min(1).max(MOST)).describe(
    'Cuts texts to a number of characters: `{ .message: 200 }`. A character that Unicode makes of several, such as a letter with an accent or a flag, is never divided.',
  ),
  operations: given => given.map(([path, most]) => changeText(path, text => truncated(text, most))),
})
