/**
 * Lines of at most `width` characters, broken at spaces. What has none for a whole line is broken anywhere. Further lines
 * begin with `indent`.
 */
export function wrap(text: string, width: number, indent: string): string[] {
  const lines: string[] = []
  let line = ''
  const most = Math.max(width, indent.length + 1)
  for (const word of text.split(/(?<=\S) /)) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line)
      line = indent + word
    } else line = line === '' ? word : `${line} ${word}`
    while (line.length > most) {
      lines.push(line.slice(0, most))
      line = indent + line.slice(most)
    }
  }
  return [...lines, line]
}

/** The same for a line that keeps its own indentation: further lines are indented by four more. */
export function wrapIndented(line: string, width: number): string[] {
  const indent = /^ */.exec(line)![0]
  return wrap(line, width, `${indent.slice(0, width >> 1)}    `)
}
