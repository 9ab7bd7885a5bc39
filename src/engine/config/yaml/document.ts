import { isCode, plainValue, replaceVariables } from './environment.js'
import { type ConfigNode, type ConfigPlace, type MapEntry, SourceText } from './node.js'
import type { Path } from './path.js'
import type { Problems } from './problems.js'

/** Deeper nesting is rejected, as in YAML files. */
const MAX_DEPTH = 64

/**
 * Converts a parsed configuration to a tree. The offset of a value is its number in the order of values, and problems
 * are sorted by offset. Lines and columns have no meaning. If `env` is a function, it changes each text.
 */
export function readDocument(
  document: unknown,
  name: string,
  problems: Problems,
  env: NodeJS.ProcessEnv | ((text: string) => string),
): ConfigNode {
  const source = new SourceText(name, '')
  let offset = 0
  const read = (value: unknown, path: Path): ConfigNode => {
    const at: ConfigPlace = { source, offset: offset++ }
    if (path.length > MAX_DEPTH) return broken(at, path, `must not be nested deeper than ${MAX_DEPTH} levels`)
    if (typeof value === 'string') return text(at, path, value)
    if (typeof value === 'number' || typeof value === 'boolean' || value === null) return scalar(at, value)
    if (Array.isArray(value)) {
      const items = value.map((item, i) => read(item, [...path, i]))
      return { kind: 'list', ...at, flow: true, items, size: sum(items) }
    }
    if (typeof value !== 'object') return broken(at, path, 'is not a value that JSON has')
    const entries = new Map<string, MapEntry>()
    for (const [key, member] of Object.entries(value)) {
      const place: ConfigPlace = { source, offset: offset++ }
      if (key === '__proto__') problems.add(place, [...path, key], 'is not a possible name')
      else entries.set(key, { key: place, value: read(member, [...path, key]) })
    }
    return { kind: 'map', ...at, flow: true, entries, size: sum([...entries.values()].map(({ value }) => value)) }
  }
  const text = (at: ConfigPlace, path: Path, value: string): ConfigNode => {
    if (typeof env === 'function') return scalar(at, env(value))
    const replaced = isCode(path) ? undefined : replaceVariables(value, env)
    if (!replaced) return scalar(at, value)
    for (const fault of replaced.faults) problems.add(at, path, fault)
    const plain = replaced.whole ? plainValue(replaced.value) : undefined
    return {
      ...scalar(at, replaced.value, replaced.faults.length > 0),
      environment: { text: value, values: replaced.values, plain },
      template: replaced.template,
    }
  }
  const broken = (at: ConfigPlace, path: Path, message: string): ConfigNode => {
    problems.add(at, path, message)
    return scalar(at, null, true)
  }
  return read(document, [])
}

function scalar(at: ConfigPlace, value: string | number | boolean | null, broken = false) {
  return { kind: 'scalar' as const, ...at, value, environment: undefined, broken, size: 1 }
}

function sum(nodes: readonly ConfigNode[]): number {
  return nodes.reduce((total, { size }) => total + size, 1)
}
