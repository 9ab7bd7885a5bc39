import { parseDocument } from 'yaml'
import { ConfigError } from '../../../core/errors.js'
import { readFileSync } from '../../../lib/files/remote/guarded-fs.js'

/** Reads a YAML file as a plain value without replacing `${NAME}`; throws ConfigError if it is not YAML. */
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

/** Changes values in the text of a configuration, by their paths. Undefined removes one. Comments and the order stay. */
export function editYaml(text: string, changes: Readonly<Record<string, unknown>>): string {
  const document = parseDocument(text)
  for (const [path, value] of Object.entries(changes)) {
    if (value === undefined) document.deleteIn(path.split('.'))
    else document.setIn(path.split('.'), document.createNode(value, { flow: true }))
  }
  return document.toString({ lineWidth: 0 })
}

/** The text that a configuration reads as `text`: where it has `${`, a variable would be put in. */
export const literalText = (text: string) => text.replaceAll('${', () => '$${')
