/** Breaks text at spaces into lines of `width`; further lines begin with `indent`. Longer words (paths) stay whole. */
export function wrap(text: string, width: number, indent: string): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(/(?<=\S) /)) {
    if (line !== '' && line.length + 1 + word.length > width) {
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
  const most = Math.max(width, indent.length + 1)
  return wrap(text, width, indent).flatMap(line => {
    const parts: string[] = []
    for (; line.length > most; line = indent + line.slice(most)) parts.push(line.slice(0, most))
    return [...parts, line]
  })
}
