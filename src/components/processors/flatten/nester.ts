import { BACKSLASH, CLOSE_OBJECT, COLON, COMMA, isAt, OPEN_OBJECT } from '../../../lib/formats/ascii.js'
import { GrowingBytes } from '../../../lib/formats/growing-bytes.js'
import { sawEscape, skipSpace, stringEnd, valueEnd } from '../../../lib/formats/json-scan.js'

/** The place of a value in `#bytes`. */
interface Range {
  readonly start: number
  readonly end: number
}
type Tree = Map<string, Tree | Range>

/** Moves each field whose name is a path, such as `a.b`, into a nested object. */
export class Nester {
  readonly #separator: string
  readonly #separatorBytes: Buffer
  readonly #maxDepth: number
  readonly #out = new GrowingBytes()
  #bytes: Buffer = Buffer.alloc(0)

  constructor(separator: string, maxDepth: number) {
    this.#separator = separator
    this.#separatorBytes = Buffer.from(separator)
    this.#maxDepth = maxDepth
  }

  /**
   * Nests the fields of the valid JSON object [start, end). Returns undefined if no name is a path. The result is valid
   * until the next call.
   */
  write(b: Buffer, start: number, end: number): GrowingBytes | undefined {
    if (!this.#mayHavePaths(b, start, end)) return undefined
    this.#bytes = b
    const fields = this.#members({ start, end })
    const root: Tree = new Map()
    for (const [name, value] of fields) this.#put(root, fields, name, value)
    this.#out.clear()
    this.#add(root)
    return this.#out
  }

  #mayHavePaths(b: Buffer, start: number, end: number): boolean {
    for (let p = skipSpace(b, start + 1, end); b[p] !== CLOSE_OBJECT; ) {
      const nameEnd = stringEnd(b, p + 1)
      if (mayHold(b, p + 1, nameEnd, this.#separatorBytes)) return true
      p = valueEnd(b, skipSpace(b, skipSpace(b, nameEnd + 1, end) + 1, end), end)
      p = skipSpace(b, p, end)
      if (b[p] === COMMA) p = skipSpace(b, p + 1, end)
    }
    return false
  }

  /** The members of an object. If a name is repeated, its first place and its last value are kept. */
  #members({ start, end }: Range): Map<string, Range> {
    const b = this.#bytes
    const members = new Map<string, Range>()
    for (let p = skipSpace(b, start + 1, end); b[p] !== CLOSE_OBJECT; ) {
      const nameEnd = stringEnd(b, p + 1)
      const text = b.toString('utf8', p + 1, nameEnd)
      const name = sawEscape ? (JSON.parse(`"${text}"`) as string) : text
      const from = skipSpace(b, skipSpace(b, nameEnd + 1, end) + 1, end)
      p = valueEnd(b, from, end)
      members.set(name, { start: from, end: p })
      p = skipSpace(b, p, end)
      if (b[p] === COMMA) p = skipSpace(b, p + 1, end)
    }
    return members
  }

  /**
   * Puts a field at the path that its name contains. If the path leads through a value that is not an object, puts the
   * field at the top level instead.
   */
  #put(root: Tree, fields: ReadonlyMap<string, Range>, name: string, value: Range): void {
    const path = this.#divided(name)
    const top = fields.get(path[0]!)
    if (top && path.length > 1 && !this.#isObject(top)) {
      root.set(name, value)
      return
    }
    let tree = root
    for (const step of path.slice(0, -1)) {
      const child = this.#opened(tree, step)
      if (!child) {
        root.set(name, value)
        return
      }
      tree = child
    }
    const last = path.at(-1)!
    if (!(tree.get(last) instanceof Map)) tree.set(last, value)
    else if (this.#isObject(value)) this.#merge(tree, last, value)
    else root.set(name, value)
  }

  #divided(name: string): string[] {
    const path = name.split(this.#separator)
    if (path.length <= this.#maxDepth) return path
    return [...path.slice(0, this.#maxDepth - 1), path.slice(this.#maxDepth - 1).join(this.#separator)]
  }

  /**
   * Returns the object of this name, and creates the object if it is missing. Returns undefined if this name has a
   * value that is not an object.
   */
  #opened(tree: Tree, name: string): Tree | undefined {
    const child = tree.get(name)
    if (child instanceof Map) return child
    if (child && !this.#isObject(child)) return undefined
    const opened: Tree = child ? this.#members(child) : new Map()
    tree.set(name, opened)
    return opened
  }

  /** Adds the members of the object `value` to the object of this name in `tree`. */
  #merge(tree: Tree, name: string, value: Range): void {
    const into = tree.get(name) as Tree
    for (const [member, one] of this.#members(value)) {
      if (into.get(member) instanceof Map && this.#isObject(one)) this.#merge(into, member, one)
      else into.set(member, one)
    }
  }

  #isObject({ start }: Range): boolean {
    return this.#bytes[start] === OPEN_OBJECT
  }

  #add(tree: Tree): void {
    const out = this.#out
    out.addByte(OPEN_OBJECT)
    let isFirst = true
    for (const [name, value] of tree) {
      if (!isFirst) out.addByte(COMMA)
      isFirst = false
      out.addText(JSON.stringify(name))
      out.addByte(COLON)
      if (value instanceof Map) this.#add(value)
      else out.add(this.#bytes, value.start, value.end)
    }
    out.addByte(CLOSE_OBJECT)
  }
}

/**
 * Whether the JSON name [start, end), without its quotes, contains the separator, or an escape that may stand for the
 * separator.
 */
export function mayHold(b: Buffer, start: number, end: number, separator: Buffer): boolean {
  const first = separator[0]
  for (let p = start; p < end; p++) {
    if (b[p] === BACKSLASH) return true
    if (b[p] === first && isAt(b, p, end, separator)) return true
  }
  return false
}
