import { createRequire } from 'node:module'

/** Fits text into the columns of a terminal. A character takes up to two columns. */

const require = createRequire(import.meta.url)
const ASCII = /^[ -~]*$/
let stringWidth: ((text: string) => number) | undefined
let segmenter: Intl.Segmenter | undefined

/**
 * Columns that `text` takes on a terminal. Terminals differ, so this is an estimate. The tables for characters beyond
 * ASCII are loaded only for a text that has some: they take a fifth of the CPU time of `sluice status`.
 */
export function displayWidth(text: string): number {
  if (ASCII.test(text)) return text.length
  stringWidth ??= (require('string-width') as { default: (text: string) => number }).default
  return stringWidth(text)
}

const graphemes = (text: string): Intl.Segments => (segmenter ??= new Intl.Segmenter()).segment(text)
const WIDEST = 2

/** Splits text into graphemes, and graphemes wider than two columns into code points. */
function* characters(text: string): Generator<string> {
  for (const { segment } of graphemes(text)) {
    if (displayWidth(segment) <= WIDEST) yield segment
    else yield* segment
  }
}

/** The longest beginning of `text` that takes at most `columns`. */
export function beginning(text: string, columns: number): string {
  let end = 0
  for (const character of characters(text)) {
    columns -= displayWidth(character)
    if (columns < 0) break
    end += character.length
  }
  return text.slice(0, end)
}

/** The longest beginning of `text` that has at most `length` UTF-16 units and ends between two characters. */
export function cutAt(text: string, length: number): string {
  return text.slice(0, graphemes(text).containing(length)?.index)
}

/** The longest end of `text` that takes at most `columns`. */
export function ending(text: string, columns: number): string {
  const all = [...characters(text)]
  let start = text.length
  for (let i = all.length - 1; i >= 0; i--) {
    columns -= displayWidth(all[i]!)
    if (columns < 0) break
    start -= all[i]!.length
  }
  return text.slice(start)
}

const spaces = (text: string, columns: number): string => ' '.repeat(Math.max(0, columns - displayWidth(text)))

export const padEnd = (text: string, columns: number): string => text + spaces(text, columns)

export const padStart = (text: string, columns: number): string => spaces(text, columns) + text

/** Breaks text at spaces into lines up to `width`. Later lines begin with `indent`. Longer words (paths) stay whole. */
export function wrap(text: string, width: number, indent: string): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(/(?<=\S) /)) {
    if (line !== '' && displayWidth(line) + 1 + displayWidth(word) > width) {
      lines.push(line)
      line = indent + word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line]
}

/** Wraps text that is printed behind other text, which is as wide as `indent`. */
export function wrapBehind(text: string, width: number, indent: string): string {
  return wrap(indent + text, width, indent)
    .join('\n')
    .slice(indent.length)
}

/** Wraps an indented line. Later lines are indented by four more columns. Words that are too long break anywhere. */
export function wrapIndented(text: string, width: number): string[] {
  const own = /^ */.exec(text)![0]
  const indent = `${own.slice(0, width >> 1)}    `
  const most = Math.max(width, indent.length + 2)
  return wrap(text, width, indent).flatMap(line => {
    const parts = ['']
    let left = most
    for (const character of characters(line)) {
      const columns = displayWidth(character)
      if (columns > left) {
        parts.push(indent)
        left = most - indent.length
      }
      parts[parts.length - 1]! += character
      left -= columns
    }
    return parts
  })
}
