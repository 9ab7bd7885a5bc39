/** Paths of event fields: `.app`, `.a.b`, `."x-y"`, `.list[0]`. */

export type PathSegment = string | number

export interface FieldPath {
  /** The path as written. */
  readonly text: string
  /** The first segment is always a name, because an event is an object. */
  readonly segments: readonly [string, ...PathSegment[]]
}

/** A syntax error in a path; `column` is 1-based. */
export class PathError extends Error {
  readonly column: number
  constructor(message: string, column: number) {
    super(message)
    this.column = column
  }
}

const NAME = /[\p{L}\p{N}_$@-]+/uy
const LONGEST_MEANT = 100
const QUOTED = /"(?:[^"\\]|\\.)*"/y
const INDEX = /\[(\d{1,9})\]/y

/** Parses the path that begins at `from`. Returns the path and the index after the path. */
export function readFieldPath(text: string, from = 0): { path: FieldPath; end: number } {
  const segments: PathSegment[] = []
  let at = from
  const match = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at
    const found = pattern.exec(text)
    if (found) at += found[0].length
    return found
  }
  if (text[at] !== '.') throw new PathError('a field path starts with a dot, as in .app', at + 1)
  while (text[at] === '.' || text[at] === '[') {
    if (text[at] === '[') {
      const index = match(INDEX)
      if (!index || segments.length === 0) throw new PathError('expected an index such as [0] after a name', at + 1)
      segments.push(Number(index[1]))
      continue
    }
    at++
    const quoted = match(QUOTED)
    const name = quoted ? unquote(quoted[0]) : match(NAME)?.[0]
    if (name === undefined) {
      throw new PathError('expected a field name after the dot; quote other characters, as in ."x y"', at + 1)
    }
    segments.push(name)
  }
  return { path: { text: text.slice(from, at), segments: segments as [string, ...PathSegment[]] }, end: at }
}

function unquote(quoted: string): string {
  return quoted.slice(1, -1).replace(/\\(.)/g, '$1')
}

/** Parses all of `text` as one path. Throws a PathError if this fails. */
export function parseFieldPath(text: string): FieldPath {
  const meant = text.startsWith('.') ? undefined : pathMeant(text)
  if (meant !== undefined) throw new PathError(`a field path starts with a dot: write ${meant}`, 1)
  const { path, end } = readFieldPath(text)
  if (end !== text.length) throw new PathError(`unexpected ${JSON.stringify(text[end])} in a field path`, end + 1)
  return path
}

/** A field in the template syntax of another program: `{{ .app }}`, `%{app}`. */
const TEMPLATE = /^(?:\{\{ *\.?(.+?) *\}\}|%\{\.?(.+?)\})$/

/** For texts such as `client`, `client.ip`, `$.client` or a template, returns the path that was probably meant. */
export function pathMeant(text: string): string | undefined {
  if (text.trim() === '' || text.length > LONGEST_MEANT) return undefined
  const [, braced, named = braced] = TEMPLATE.exec(text) ?? []
  if (named !== undefined) return pathMeant(named)
  for (const path of [text.startsWith('$.') ? text.slice(1) : `.${text}`, fieldPathText(text)]) {
    try {
      if (readFieldPath(path).end === path.length) return path
    } catch (error) {
      if (!(error instanceof PathError)) throw error
    }
  }
  return undefined
}

/** Returns the path of a top-level field. */
export function fieldPathText(name: string): string {
  NAME.lastIndex = 0
  return NAME.exec(name)?.[0] === name ? `.${name}` : `."${name.replace(/[\\"]/g, '\\$&')}"`
}

/** Returns the value at `segments` within `value`, or undefined. Follows only own properties and array items. */
export function valueAt(value: unknown, segments: readonly PathSegment[]): unknown {
  for (const segment of segments) {
    if (typeof value !== 'object' || value === null) return undefined
    if (Array.isArray(value) !== (typeof segment === 'number')) return undefined
    if (!Object.hasOwn(value, segment)) return undefined
    value = (value as Record<PathSegment, unknown>)[segment]
  }
  return value
}

export function cannotBeSet({ text }: FieldPath): string {
  return `${text} cannot be set: its parent is not an object`
}
