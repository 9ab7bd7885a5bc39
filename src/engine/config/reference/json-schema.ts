import { z } from 'zod'
import type { AnyDefinition } from '../../../core/component.js'
import { configSchema } from '../schema.js'

/** Creates the JSON Schema of a configuration for editors. The reference is generated from it, too. */

export interface JsonSchema {
  type?: string | string[]
  title?: string
  description?: string
  default?: unknown
  enum?: unknown[]
  const?: unknown
  anyOf?: JsonSchema[]
  oneOf?: JsonSchema[]
  allOf?: JsonSchema[]
  items?: JsonSchema
  properties?: Record<string, JsonSchema>
  required?: string[]
  additionalProperties?: JsonSchema | boolean
  minimum?: number
  maximum?: number
  exclusiveMinimum?: number
  exclusiveMaximum?: number
  minLength?: number
  maxLength?: number
  minItems?: number
  maxItems?: number
  pattern?: string
  $ref?: string
  [key: string]: unknown
}

/** Schemas that are used in many places, by title. Each is defined once. */
const SHARED: readonly string[] = ['duration', 'size', 'codec', 'encoding']

const UNIONS: readonly unknown[] = ['anyOf', 'oneOf', 'allOf']
const VARIABLE = '\\$\\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\\}'

/**
 * The JSON Schema of valid input. Omits limits that only require a safe integer. Calls `change` for each part, inner
 * parts before outer parts. `of`: whether the part is a value, a variant of a union, or a name.
 */
export function inputSchema(
  schema: z.ZodType,
  change: (node: JsonSchema, of: 'value' | 'variant' | 'name') => JsonSchema = node => node,
): JsonSchema {
  return z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: 'any',
    target: 'draft-7',
    override({ jsonSchema: node, path }) {
      if (node.maximum === Number.MAX_SAFE_INTEGER) delete node.maximum
      if (node.minimum === Number.MIN_SAFE_INTEGER) delete node.minimum
      const of = path.at(-1) === 'propertyNames' ? 'name' : UNIONS.includes(path.at(-2)) ? 'variant' : 'value'
      const changed = { ...change(node as JsonSchema, of) }
      for (const name of Object.keys(node)) delete node[name]
      Object.assign(node, changed)
    },
  }) as JsonSchema
}

/** The JSON Schema of a whole configuration; components are distinguished by `type`. */
export function jsonSchema(components: readonly AnyDefinition[]): JsonSchema {
  const shared: Record<string, JsonSchema> = {
    variable: {
      description: 'A value from the environment.',
      type: 'string',
      pattern: `^${VARIABLE}$`,
    },
  }
  // `required` is removed, since the file of a service does not need sources and destinations.
  const { $schema, required, ...schema } = inputSchema(configSchema(components), (node, of) => {
    if (of === 'name') return node
    return hoist(of === 'variant' ? withVariable(node) : orVariable(withVariable(node)), shared)
  })
  // The place and the version of the standard that SchemaStore expects.
  const $id = 'https://json.schemastore.org/sluice.json'
  return { $schema, $id, title: 'Sluice configuration', ...schema, definitions: shared } as JsonSchema
}

/** If a text has a pattern, allows a variable as well. */
function withVariable(node: JsonSchema): JsonSchema {
  const { type, pattern } = node
  if (type !== 'string' || pattern === undefined || pattern.endsWith(VARIABLE)) return node
  return { ...node, pattern: `${pattern}|${VARIABLE}` }
}

/** Allows a variable instead of a number, a boolean, one of several words, or a union of words and numbers. */
function orVariable(node: JsonSchema): JsonSchema {
  if (node.anyOf?.every(({ type, const: word }) => word !== undefined || type === 'integer'))
    return { ...node, anyOf: [...node.anyOf, { $ref: '#/definitions/variable' }] }
  const words = node.enum?.every(value => typeof value === 'string')
  if (!words && node.type !== 'integer' && node.type !== 'number' && node.type !== 'boolean') return node
  const { description, default: preset, ...rest } = node
  return {
    ...(description === undefined ? {} : { description }),
    ...(preset === undefined ? {} : { default: preset }),
    anyOf: [rest, { $ref: '#/definitions/variable' }],
  }
}

function hoist(node: JsonSchema, shared: Record<string, JsonSchema>): JsonSchema {
  const { title, anyOf, ...rest } = node
  if (title === undefined || !anyOf || !SHARED.includes(title)) return node
  // The shared duration does not allow 0.
  if (anyOf.some(variant => variant.const === 0)) return node
  const words = anyOf.some(variant => variant.enum)
  shared[title] ??= { title, anyOf: words ? [...anyOf, { $ref: '#/definitions/variable' }] : anyOf }
  // Beside a $ref, validators ignore everything else.
  return { ...rest, allOf: [{ $ref: `#/definitions/${title}` }] }
}
