/** A configuration document as a tree that knows where each value stands. Files of a folder share one tree. */

export type Path = readonly (string | number)[]

/** One text of configuration, for turning offsets into lines and columns. */
export class SourceText {
  readonly file: string
  readonly text: string
  #starts: number[] | undefined

  constructor(file: string, text: string) {
    this.file = file
    this.text = text
  }

  /** 1-based line and column (in UTF-16 units, as editors count). */
  place(offset: number): { line: number; column: number } {
    this.#starts ??= lineStarts(this.text)
    let low = 0
    let high = this.#starts.length - 1
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (this.#starts[middle]! <= offset) low = middle
      else high = middle - 1
    }
    return { line: low + 1, column: offset - this.#starts[low]! + 1 }
  }
}

function lineStarts(text: string): number[] {
  const starts = [0]
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) starts.push(at + 1)
  return starts
}

/** Where something stands. */
export interface Place {
  readonly source: SourceText
  readonly offset: number
}

/** A value that (in part) came from the environment. It is never shown: messages show `text`. */
export interface FromEnvironment {
  /** As it stands in the file, `${NAME}` and all. */
  readonly text: string
  /** What the variables were replaced with. */
  readonly values: readonly string[]
  /** The number or boolean that the whole of an unquoted `${NAME}` reads as. */
  readonly plain: number | boolean | undefined
}

interface NodeBase extends Place {
  /** Values in it, itself included, aliases counted at each use. */
  readonly size: number
}

export interface ScalarNode extends NodeBase {
  readonly kind: 'scalar'
  value: string | number | boolean | null
  readonly environment: FromEnvironment | undefined
  /** Something about it was reported already: whatever else is wrong with its value is a consequence. */
  readonly broken: boolean
}

export interface ListNode extends NodeBase {
  readonly kind: 'list'
  /** Written in brackets rather than one item a line. */
  readonly flow: boolean
  readonly items: readonly ConfigNode[]
}

export interface MapNode extends NodeBase {
  readonly kind: 'map'
  readonly flow: boolean
  readonly entries: ReadonlyMap<string, Entry>
}

export interface Entry {
  readonly key: Place
  readonly value: ConfigNode
}

export type ConfigNode = ScalarNode | ListNode | MapNode

/** The plain value of a tree. Every call makes a new one. */
export function toValue(node: ConfigNode): unknown {
  if (node.kind === 'scalar') return node.value
  if (node.kind === 'list') return node.items.map(toValue)
  const value: Record<string, unknown> = {}
  for (const [key, entry] of node.entries) value[key] = toValue(entry.value)
  return value
}

/** What a path leads to: the node if it is there, and the entry or item it, or its nearest parent, is. */
export interface Located {
  readonly node: ConfigNode | undefined
  /** The key in front of the node or of its nearest parent; undefined for a list item and for the root. */
  readonly key: Place | undefined
  /** The node or its nearest parent. */
  readonly nearest: ConfigNode
}

export function locate(root: ConfigNode, path: Path, rootKey?: Place): Located {
  let nearest = root
  let key = rootKey
  for (const step of path) {
    const entry = nearest.kind === 'map' ? nearest.entries.get(String(step)) : undefined
    const next = entry?.value ?? (nearest.kind === 'list' ? nearest.items[Number(step)] : undefined)
    if (!next) return { node: undefined, key, nearest }
    nearest = next
    key = entry?.key
  }
  return { node: nearest, key, nearest }
}

/** Where to point at for a located value: at the value, or at its key when the value starts on a later line or is empty. */
export function placeOf({ node, key, nearest }: Located): Place {
  if (!key) return nearest
  if (!node) return key
  const empty = node.kind === 'scalar' ? node.value === null && !node.environment : !node.flow
  return empty ? key : node
}

/** `at sluice.yaml:3:5`. */
export function placeText({ source, offset }: Place): string {
  const { line, column } = source.place(offset)
  return `at ${source.file}:${line}:${column}`
}

const PLAIN_NAME = /^[\p{L}\p{N}_$@-]+$/u

/** `processors.limit_app.inputs[0]`. */
export function pathText(path: Path): string {
  let text = ''
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`
    else {
      const name = PLAIN_NAME.test(step) ? step : JSON.stringify(step)
      text += text ? `.${name}` : name
    }
  }
  return text
}
