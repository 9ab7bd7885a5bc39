/** Fits text into columns of a terminal, where a character takes up to two of them. */

const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}/u
const NO_WIDTH = /\p{M}/u

/** Columns that `text` takes on a terminal, as far as that can be determined. */
export function displayWidth(text: string): number {
  let width = 0
  for (const char of text) width += char < '\u0300' ? 1 : WIDE.test(char) ? 2 : NO_WIDTH.test(char) ? 0 : 1
  return width
}

/** The longest beginning of `text` that takes at most `columns`. */
export function beginning(text: string, columns: number): string {
  let end = 0
  for (const char of text) {
    columns -= displayWidth(char)
    if (columns < 0) break
    end += char.length
  }
  return text.slice(0, end)
}

/** The longest end of `text` that takes at most `columns`. */
export function ending(text: string, columns: number): string {
  let left = displayWidth(text)
  let start = 0
  for (const char of text) {
    if (left <= columns) break
    left -= displayWidth(char)
    start += char.length
  }
  return text.slice(start)
}

export const padEnd = (text: string, columns: number): string =>
  text + ' '.repeat(Math.max(0, columns - displayWidth(text)))

/** Breaks text at spaces into lines of `width`; further lines begin with `indent`. Longer words (paths) stay whole. */
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

/** Wraps an indented line; further lines are indented by four more. Words that are too long are broken anywhere. */
export function wrapIndented(text: string, width: number): string[] {
  const own = /^ */.exec(text)![0]
  const indent = `${own.slice(0, width >> 1)}    `
  const most = Math.max(width, indent.length + 2)
  return wrap(text, width, indent).flatMap(line => {
    const parts: string[] = []
    for (let part = beginning(line, most); part.length < line.length; part = beginning(line, most)) {
      parts.push(part)
      line = indent + line.slice(part.length)
    }
    return [...parts, line]
  })
}
