import { isMap, isNode, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml'
import { readCsvTable } from '../../../../lib/formats/csv-text.js'
import { tooDeepAt } from '../../../../lib/formats/yaml-depth.js'

/** Rules as they stand in a file, before they are checked. */

/** A rule, and where its options are. */
export interface Written {
  readonly value: unknown
  /** The line of what is at a path in the rule, or of the nearest that there is, from 1. */
  readonly lineOf: (path: readonly PropertyKey[]) => number
}

export interface WrittenProblem {
  readonly line: number
  /** In the list; the first element is the index of the rule. */
  readonly path: readonly PropertyKey[]
  readonly message: string
}

export type WrittenRules = { readonly rules: readonly Written[] } | { readonly problems: readonly WrittenProblem[] }

/** Options whose values are numbers if they look like them. */
const NUMBERS = new Set(['limit', 'limit_bytes', 'burst'])
const WHOLE = /^\d+$/

/** Reads CSV: the first record names the options, each further one is a rule. */
export function readCsv(text: string): WrittenRules {
  const read = readCsvTable(text)
  if ('message' in read) {
    const { line, record, message } = read
    return { problems: [{ line, path: record === undefined ? [] : [record], message }] }
  }
  const rules = read.records.map(({ line, fields }) => {
    const given = read.names.flatMap((name, n): [string, unknown][] => {
      const value = fields[n]!
      if (value === '') return []
      return [[name, NUMBERS.has(name) && WHOLE.test(value) ? Number(value) : value]]
    })
    return { value: Object.fromEntries(given), lineOf: () => line }
  })
  return { rules }
}

const NO_LIST = 'must be a list of rules, such as: - { key: "batch-*", limit: 10 }'
/** How much aliases may stand for together. */
const MOST_ALIASES = 100_000

/** Reads a list of rules in YAML 1.2. */
export function readYamlRules(text: string): WrittenRules {
  const lines = new LineCounter()
  const deep = tooDeepAt(text)
  if (deep !== undefined) {
    const line = text.slice(0, deep).split('\n').length
    return { problems: [{ line, path: [], message: 'must not be nested this deeply' }] }
  }
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, stringKeys: true, logLevel: 'error' })
  const lineAt = (offset: number | undefined) => (offset === undefined ? 1 : lines.linePos(offset).line)
  if (document.errors.length > 0) {
    const problems = document.errors.map(({ pos, message }) => ({ line: lineAt(pos[0]), path: [], message }))
    return { problems: problems.slice(0, 10) }
  }
  const { contents } = document
  if (!isSeq(contents)) return { problems: [{ line: lineAt(contents?.range?.[0]), path: [], message: NO_LIST }] }
  try {
    // All at once: each time, the anchors of the whole document are looked for.
    const values = contents.toJS(document, { maxAliasCount: MOST_ALIASES }) as unknown[]
    const rules = contents.items.map((item, n): Written => {
      return { value: values[n], lineOf: path => lineAt(offsetOf(item as Node, path)) }
    })
    return { rules }
  } catch (error) {
    return { problems: [{ line: 1, path: [], message: (error as Error).message }] }
  }
}

/** Where what is at `path` begins, or the nearest that there is. */
function offsetOf(node: Node, path: readonly PropertyKey[]): number | undefined {
  const [step, ...rest] = path
  if (step === undefined) return node.range?.[0]
  if (isMap(node)) {
    const pair = node.items.find(({ key }) => isScalar(key) && key.value === step)
    if (pair && isNode(pair.value) && rest.length > 0) return offsetOf(pair.value, rest)
    if (pair) return (pair.key as Node).range?.[0]
  } else if (isSeq(node) && typeof step === 'number' && isNode(node.items[step])) {
    return offsetOf(node.items[step] as Node, rest)
  }
  return node.range?.[0]
}
