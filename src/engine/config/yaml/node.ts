import { dirname, resolve } from 'node:path'
import type { TemplateText } from './environment.js'
import type { Path } from './path.js'

/** A configuration document as a tree, with the place of each value. The files of a folder share one tree. */

/** A text of a configuration. Maps offsets to lines and columns. */
export class SourceText {
  readonly file: string
  readonly text: string
  #starts: number[] | undefined

  constructor(file: string, text: string) {
    this.file = file
    this.text = text
  }

  /** 1-based line and column, in UTF-16 units as in editors. */
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

export interface ConfigPlace {
  readonly source: SourceText
  readonly offset: number
}

/** A value that comes wholly or partly from the environment. Messages must show `text` instead of the value. */
export interface FromEnvironment {
  /** The text as written in the file, with `${NAME}`. */
  readonly text: string
  readonly values: readonly string[]
  /** The number or boolean that the value looks like, if `text` is just an unquoted `${NAME}`. Else undefined. */
  readonly plain: number | boolean | undefined
}

interface NodeBase extends ConfigPlace {
  /** Number of values in this part of the tree, including the node itself. Each use of an alias counts. */
  readonly size: number
}

export interface ScalarNode extends NodeBase {
  readonly kind: 'scalar'
  value: string | number | boolean | null
  readonly environment: FromEnvironment | undefined
  /** The text to use if the option is a template. Present only if the value contains `${`. */
  readonly template?: TemplateText
  /** Whether a problem of this value was reported. Its other problems follow from that one and are not reported. */
  broken: boolean
}

export interface ListNode extends NodeBase {
  readonly kind: 'list'
  /** Whether the list is written in brackets instead of with one item per line. */
  readonly flow: boolean
  readonly items: readonly ConfigNode[]
}

export interface MapNode extends NodeBase {
  readonly kind: 'map'
  readonly flow: boolean
  readonly entries: ReadonlyMap<string, MapEntry>
}

export interface MapEntry {
  readonly key: ConfigPlace
  readonly value: ConfigNode
}

export type ConfigNode = ScalarNode | ListNode | MapNode

/** The plain value of a tree. Each call creates a new value. */
export function toValue(node: ConfigNode): unknown {
  if (node.kind === 'scalar') return node.value
  if (node.kind === 'list') return node.items.map(toValue)
  const value: Record<string, unknown> = {}
  for (const [key, entry] of node.entries) value[key] = toValue(entry.value)
  return value
}

/** The different texts that options with one of these names have, anywhere in the trees. */
export function scalarsOf(nodes: readonly ConfigNode[], names: readonly string[]): string[] {
  const found = new Set<string>()
  const add = (node: ConfigNode, name?: string): void => {
    if (node.kind === 'list') for (const item of node.items) add(item)
    else if (node.kind === 'map') for (const [key, { value }] of node.entries) add(value, key)
    else if (name !== undefined && names.includes(name)) found.add(String(node.value))
  }
  for (const node of nodes) add(node)
  return [...found]
}

export interface Located {
  readonly node: ConfigNode | undefined
  /** The key of `nearest`. Undefined if `nearest` is a list item or the root. */
  readonly key: ConfigPlace | undefined
  /** The node, or its nearest existing parent. */
  readonly nearest: ConfigNode
}

export function locate(root: ConfigNode, path: Path, rootKey?: ConfigPlace): Located {
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

/** The place to report: the key of a value if the value is empty or begins on a later line, otherwise the value. */
export function placeOf({ node, key, nearest }: Located): ConfigPlace {
  if (!key) return nearest
  if (!node) return key
  const empty = node.kind === 'scalar' ? node.value === null && !node.environment : !node.flow
  return empty ? key : node
}

/** Returns a text such as `at sluice.yaml:3:5`. */
export function placeText({ source, offset }: ConfigPlace): string {
  const { line, column } = source.place(offset)
  return `at ${source.file}:${line}:${column}`
}

/**
 * If the value of `node` is from the environment, replaces it in the message with its reference, such as `${NAME}`.
 * `areHidden`: also the absolute paths of the value.
 */
export function withVariable(node: ConfigNode, message: string, areHidden = false): string {
  if (node.kind !== 'scalar' || !node.environment || typeof node.value !== 'string' || node.value === '') return message
  const { value, environment, source } = node
  const paths = areHidden ? [resolve(dirname(source.file), value), resolve(value)] : []
  return [...paths, value].reduce((shown, one) => shown.replaceAll(one, environment.text), message)
}
