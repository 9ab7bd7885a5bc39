import { Document, isMap, isSeq, type Node, parseDocument, stringify } from 'yaml'
import { ConfigError } from '../../../core/errors.js'
import { readFileSync } from '../../../lib/files/disk/disk.js'
import type { ConfigNode } from './node.js'

/** Reads a YAML file as a plain value, without replacing `${NAME}`. Throws ConfigError if it is not YAML. */
export function loadDocument(path: string): Record<string, unknown> {
  const document = parseDocument(readFileSync(path).toString(), { version: '1.2', prettyErrors: true })
  const problems = document.errors.map(({ message, linePos }) => {
    const { line, col: column } = linePos?.[0] ?? { line: 1, col: 1 }
    return { file: path, line, column, path: '', message: message.split('\n')[0]!.replace(/ at line \d+.*$/, '') }
  })
  if (problems.length > 0) throw new ConfigError(problems)
  const value: unknown = document.toJS({ maxAliasCount: 1000 })
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  throw new ConfigError([{ file: path, line: 1, column: 1, path: '', message: 'must be a mapping' }])
}

/**
 * Changes values in the text of a configuration. `changes`: new values by path. The value undefined removes an option.
 * Keeps comments and order.
 */
export function editYaml(text: string, changes: Readonly<Record<string, unknown>>): string {
  const document = parseDocument(text)
  for (const [path, value] of Object.entries(changes)) {
    if (value === undefined) document.deleteIn(path.split('.'))
    else document.setIn(path.split('.'), document.createNode(value, { flow: true }))
  }
  return document.toString({ lineWidth: 0 })
}

/** A value on one line, which ends with a line feed. */
export const onOneLine = (value: unknown) =>
  stringify(value, { collectionStyle: 'flow', blockQuote: false, lineWidth: 0 })

/** Escapes `${`, which would begin a variable in the configuration. */
export const literalText = (text: string) => text.replaceAll('${', () => '$${')

/** The value of a tree as written in the file: with `${NAME}`, not with the values of variables. */
export function writtenValue(node: ConfigNode): unknown {
  if (node.kind === 'scalar') return node.environment?.text ?? node.value
  if (node.kind === 'list') return node.items.map(writtenValue)
  return Object.fromEntries([...node.entries].map(([key, { value }]) => [key, writtenValue(value)]))
}

/** Formats a value as YAML, with brackets where `like` has them. */
export function yamlOf(value: unknown, like: ConfigNode): string {
  const document = new Document(value)
  if (document.contents) shapeLike(document.contents, like)
  return document.toString({ lineWidth: 0 })
}

function shapeLike(node: Node, like: ConfigNode): void {
  if (isMap<{ value: string }, Node>(node) && like.kind === 'map') {
    node.flow = like.flow
    for (const { key, value } of node.items) {
      const entry = like.entries.get(key.value)
      if (value && entry) shapeLike(value, entry.value)
    }
  } else if (isSeq<Node>(node) && like.kind === 'list') {
    node.flow = like.flow
    for (const [i, item] of node.items.entries()) if (like.items[i]) shapeLike(item, like.items[i])
  }
}
