/**
 * Divides a YAML text whose structure is wrong into parts that are parsed separately, so one mistake does not hide
 * others. A part is the whole text with everything else blanked out, which keeps offsets.
 */
export interface Part {
  readonly text: string
  /** The top-level key, and the key below it if the part is one entry of a section. */
  readonly path: readonly string[]
  /** Of the last key of the path. */
  readonly offset: number
}

interface Line {
  readonly start: number
  readonly end: number
  /** Number of leading spaces; undefined for a line that is blank or only has a comment. */
  readonly indent: number | undefined
  /** Without leading spaces and a trailing comment. */
  readonly text: string
}

const KEY = /^([\p{L}_][\p{L}\p{N}_.-]*)\s*:(?=\s|$)/u

/** Divides a text at its top-level keys; undefined if it does not consist of them. */
export function topParts(text: string): Part[] | undefined {
  const lines = linesOf(text).filter(({ indent }) => indent !== undefined)
  const parts: Part[] = []
  for (const [i, line] of lines.entries()) {
    if (line.indent !== 0) {
      if (parts.length === 0) return undefined
      continue
    }
    const name = KEY.exec(line.text)?.[1]
    if (name === undefined) return undefined
    const next = lines.slice(i + 1).find(({ indent }) => indent === 0)
    parts.push({ text: only(text, [[line.start, next?.start ?? text.length]]), path: [name], offset: line.start })
  }
  return parts
}

/** Divides the part of a section into its entries; undefined if that is impossible. */
export function entryParts(part: Part): Part[] | undefined {
  const [head, ...lines] = linesOf(part.text).filter(({ indent }) => indent !== undefined)
  const depth = lines[0]?.indent
  if (!head || !/:$/.test(head.text) || depth === undefined || lines[0]!.text.startsWith('\t')) return undefined
  const begins = lines.filter(({ indent, text }) => indent === depth && !text.startsWith('\t'))
  const parts: Part[] = []
  for (const [i, { start, text }] of begins.entries()) {
    const name = KEY.exec(text)?.[1]
    if (name === undefined) return undefined
    const end = begins[i + 1]?.start ?? part.text.length
    const entry = only(part.text, [
      [head.start, head.end],
      [start, end],
    ])
    parts.push({ text: entry, path: [...part.path, name], offset: start + depth })
  }
  return parts
}

/** The first line whose indentation matches no line above it, and the number of spaces that would. */
export function misindented(text: string): { offset: number; spaces: number } | undefined {
  const open: number[] = []
  let above: Line | undefined
  let literal: number | undefined
  for (const line of linesOf(text)) {
    const { indent, start } = line
    if (indent === undefined) continue
    if (literal !== undefined && indent > literal) continue
    literal = /[|>][+-]?\d?$/.test(line.text) ? indent : undefined
    if (line.text.startsWith('\t')) return undefined
    const isEntry = KEY.test(line.text) || line.text.startsWith('- ')
    if (
      above &&
      indent > above.indent! &&
      /^(- +)?[^:]+: +[^\s&]/.test(above.text) &&
      isEntry &&
      !open.includes(indent)
    )
      return { offset: start + indent, spaces: open.at(-1) ?? 0 }
    let last = indent
    while (open.length > 0 && open.at(-1)! > indent) last = open.pop()!
    if (open.at(-1) !== indent) {
      if (last !== indent) return { offset: start + indent, spaces: last }
      open.push(indent)
    }
    const dash = /^- +(?=\S)/.exec(line.text)
    if (dash) open.push(indent + dash[0].length)
    above = line
  }
  return undefined
}

function linesOf(text: string): Line[] {
  const lines: Line[] = []
  for (let start = 0; start < text.length; ) {
    const newline = text.indexOf('\n', start)
    const end = newline === -1 ? text.length : newline + 1
    const whole = text.slice(start, end).trimEnd()
    const shown = whole.trimStart() === '' || /^\s*#/.test(whole) ? '' : whole.replace(/\s+#.*$/, '')
    const indent = shown === '' ? undefined : /^ */.exec(shown)![0].length
    // A tab may stand for any number of spaces: the line belongs to the one above it.
    const deep = shown.slice(indent).startsWith('\t') ? Number.MAX_SAFE_INTEGER : indent
    lines.push({ start, end, indent: deep, text: shown.slice(indent ?? 0) })
    start = end
  }
  return lines
}

/** Blanks out everything in `text` except the given ranges. */
function only(text: string, ranges: readonly (readonly [from: number, to: number])[]): string {
  let kept = ''
  let at = 0
  for (const [from, to] of ranges) {
    kept += text.slice(at, from).replace(/[^\n]/g, ' ') + text.slice(from, to)
    at = to
  }
  return kept + text.slice(at).replace(/[^\n]/g, ' ')
}
