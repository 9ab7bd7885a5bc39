import { WantedNames } from '../../lib/formats/json-scan.js'

/** Fields that the source makes of the parts of a record. An attribute with such a name is in `.attributes`. */
export const RECORD_FIELDS = [
  ...['timestamp', 'observed_timestamp', 'severity', 'severity_number', 'message', 'trace_id', 'span_id', 'flags'],
  ...['event_name', 'dropped_attributes_count', 'attributes', 'resource', 'scope', 'peer'],
] as const

export type RecordFieldName = (typeof RECORD_FIELDS)[number]

const names = new WantedNames()
for (const name of RECORD_FIELDS) names.slot(name)
export const RECORD_NAMES = names

/** Deeper values are refused, because readers of protobuf accept 100 nested messages, and a level can take three. */
export const MOST_LEVELS = 32
/** Names with more dots stay as they are. */
export const MOST_STEPS = 16

type Tree = Map<string, Tree | string>

/**
 * Returns attributes as the members of a JSON object. A name with dots becomes nested objects, unless a name before one
 * of its dots is another attribute. `attributes`: names, and values as JSON.
 */
export function nestedAttributes(attributes: readonly (readonly [string, string])[]): string {
  const names = new Set(attributes.map(([name]) => name))
  const tree: Tree = new Map()
  for (const [name, json] of attributes) {
    const steps = name.split('.')
    const isFlat = steps.length > MOST_STEPS || steps.some((step, n) => step === '' || isOneOf(names, steps, n))
    let at = tree
    for (const step of isFlat ? [] : steps.slice(0, -1)) {
      const next = (at.get(step) as Tree | undefined) ?? new Map()
      at.set(step, next)
      at = next
    }
    at.set(isFlat ? name : steps.at(-1)!, json)
  }
  return textOf(tree)
}

const isOneOf = (names: ReadonlySet<string>, steps: readonly string[], count: number) =>
  count > 0 && names.has(steps.slice(0, count).join('.'))

function textOf(tree: Tree): string {
  const members = Array.from(tree, ([name, value]) => {
    return `${JSON.stringify(name)}:${typeof value === 'string' ? value : textOf(value)}`
  })
  return `{${members.join(',')}}`
}
