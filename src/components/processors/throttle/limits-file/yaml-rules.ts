import { isMap, isNode, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml'
import { tooDeepAt } from '../../../../lib/formats/yaml-depth.js'
import type { Written, WrittenRules } from './written-rules.js'

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
