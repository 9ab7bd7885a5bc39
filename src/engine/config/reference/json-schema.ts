import { z } from 'zod'
import type { AnyDefinition } from '../../../core/component.js'
import { configSchema } from '../schema.js'

/** Creates the JSON Schema of a configuration, for editors. The reference is made from it as well. */

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

/** Schemas that occur in many places are defined once, by their title. */
const SHARED: readonly string[] = ['duration', 'size', 'codec', 'encoding']

/** Shorter schemas are repeated, which is easier to read. */
const LEAST_SHARED = 200

/** The schema of what users write, without limits that only express "a safe integer". */
export function inputSchema(schema: z.ZodType): JsonSchema {
  const json = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as JsonSchema
  return rewrite(json, node => {
    const { maximum, minimum } = node
    if (maximum === Number.MAX_SAFE_INTEGER) delete node.maximum
    if (minimum === Number.MIN_SAFE_INTEGER) delete node.minimum
    return node
  })
}

/** The JSON Schema of a whole configuration; components are distinguished by `type`. */
export function jsonSchema(components: readonly AnyDefinition[]): JsonSchema {
  const shared: Record<string, JsonSchema> = {
    variable: {
      description: 'A value from the environment.',
      type: 'string',
      pattern: '^\\$\\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\\}$',
    },
  }
  // `required` is removed: a daemon needs sources and destinations, but the file of a service does not.
  const { $schema, required, ...schema } = rewrite(inputSchema(configSchema(components)), (node, inUnion) =>
    hoist(inUnion ? node : orVariable(node), shared),
  )
  const whole = shareRepeated({ title: 'Sluice configuration', ...schema }, shared)
  return { $schema, ...whole, $defs: shared } as JsonSchema
}

/** Copies the schema. Options that several components have, such as those of delivery, are moved to `shared`. */
function shareRepeated(schema: JsonSchema, shared: Record<string, JsonSchema>): JsonSchema {
  const counts = new Map<string, number>()
  const nameOf = (name: string, option: JsonSchema) => `${name} ${JSON.stringify(option)}`
  eachOption(schema, (name, option) => {
    const key = nameOf(name, option)
    counts.set(key, (counts.get(key) ?? 0) + 1)
  })
  const homes = new Map<string, string>()
  const share = (name: string, option: JsonSchema): JsonSchema => {
    const key = nameOf(name, option)
    if (counts.get(key) === 1 || key.length < LEAST_SHARED) return withOptions(option, share)
    // Another option has this name already.
    if (shared[name] && homes.get(name) !== key) return withOptions(option, share)
    homes.set(name, key)
    shared[name] ??= withOptions(option, share)
    return { $ref: `#/$defs/${name}` }
  }
  return withOptions(schema, share)
}

/** Keywords whose values contain schemas with options. */
const INNER = ['anyOf', 'oneOf', 'allOf', 'items', 'additionalProperties'] as const

function eachOption(node: JsonSchema, see: (name: string, option: JsonSchema) => void): void {
  for (const [name, option] of Object.entries(node.properties ?? {})) {
    see(name, option)
    eachOption(option, see)
  }
  for (const inner of INNER) {
    const parts = node[inner]
    if (typeof parts === 'object') for (const part of [parts].flat()) eachOption(part, see)
  }
}

/** A copy with other options. */
function withOptions(node: JsonSchema, change: (name: string, option: JsonSchema) => JsonSchema): JsonSchema {
  const copy = { ...node }
  if (node.properties) {
    const changed = Object.entries(node.properties).map(([name, option]) => [name, change(name, option)])
    copy.properties = Object.fromEntries(changed)
  }
  for (const inner of INNER) {
    const parts = node[inner]
    if (Array.isArray(parts)) copy[inner] = parts.map(part => withOptions(part, change)) as never
    else if (typeof parts === 'object') copy[inner] = withOptions(parts, change) as never
  }
  return copy
}

/** Allows a variable in place of a number, a boolean or one of several words. */
function orVariable(node: JsonSchema): JsonSchema {
  const words = node.enum?.every(value => typeof value === 'string')
  if (!words && node.type !== 'integer' && node.type !== 'number' && node.type !== 'boolean') return node
  const { description, default: preset, ...rest } = node
  return {
    ...(description === undefined ? {} : { description }),
    ...(preset === undefined ? {} : { default: preset }),
    anyOf: [rest, { $ref: '#/$defs/variable' }],
  }
}

function hoist(node: JsonSchema, shared: Record<string, JsonSchema>): JsonSchema {
  const { title, anyOf, ...rest } = node
  if (title === undefined || !anyOf || !SHARED.includes(title)) return node
  const words = anyOf.some(variant => variant.enum)
  shared[title] ??= { title, anyOf: words ? [...anyOf, { $ref: '#/$defs/variable' }] : anyOf }
  return { ...rest, $ref: `#/$defs/${title}` }
}

/** A copy in which `change` was applied to every schema, innermost first. */
function rewrite(
  node: JsonSchema,
  change: (node: JsonSchema, inUnion: boolean) => JsonSchema,
  inUnion = false,
): JsonSchema {
  const copy = { ...node }
  for (const key of ['anyOf', 'oneOf', 'allOf'] as const) {
    if (copy[key]) copy[key] = copy[key].map(inner => rewrite(inner, change, true))
  }
  if (copy.items) copy.items = rewrite(copy.items, change)
  if (typeof copy.additionalProperties === 'object') {
    copy.additionalProperties = rewrite(copy.additionalProperties, change)
  }
  if (copy.properties) {
    const entries = Object.entries(copy.properties).map(([name, inner]) => [name, rewrite(inner, change)])
    copy.properties = Object.fromEntries(entries)
  }
  return change(copy, inUnion)
}
