import { z } from 'zod'
import type { CodecDefinition } from '../../../core/codec.js'
import { type AnyDefinition, CONTRACT } from '../../../core/component.js'
import type { ModuleExports } from '../../../lib/load-module.js'
import { COMPONENT_ID, KINDS } from '../schema.js'

export interface Definitions {
  readonly components: readonly AnyDefinition[]
  readonly codecs: readonly CodecDefinition[]
}

const isFunction = z.custom(value => typeof value === 'function', { error: 'must be a function' })
const isStrict = (value: unknown) => {
  const { type, catchall } = (value as z.ZodObject | undefined)?._zod?.def ?? {}
  return type === 'object' && catchall?._zod.def.type === 'never'
}
const name = z.string().regex(COMPONENT_ID, { error: 'must be made of a-z, 0-9 and _, and begin with a letter' })
const sentence = z.string({ error: 'must be a sentence' }).min(1)
const common = {
  contract: z.literal(CONTRACT),
  summary: sentence,
  options: z.custom(isStrict, { error: 'must be a z.strictObject' }),
  create: isFunction,
}
const component = z.looseObject({
  ...common,
  kind: z.enum(KINDS),
  type: name,
  examples: z.array(z.looseObject({ title: sentence, yaml: z.string() })).min(1),
})
const codec = z.looseObject({
  ...common,
  name,
  form: z.enum(['object', 'message', 'fields']),
  expects: sentence,
  undecodedHelp: sentence,
  joinsLines: z.boolean(),
  examples: z
    .array(z.looseObject({ title: sentence, yaml: z.string(), line: z.string(), event: z.looseObject({}) }))
    .min(1),
})

/**
 * Returns the definitions that a module exports. Sets `plugin` of each definition to `version`. If the exports are
 * invalid, throws an Error that describes the problem.
 */
export function definitionsIn(exports: ModuleExports, version: string): Definitions {
  const components: AnyDefinition[] = []
  const codecs: CodecDefinition[] = []
  for (const [name, value] of candidates(exports)) {
    const isCodec = !('kind' in value)
    checkContract(name, value.contract)
    const checked = (isCodec ? codec : component).safeParse(value)
    if (!checked.success) {
      const { path, message } = checked.error.issues[0]!
      throw new Error(`${[name, ...path].join('.')}: ${message}`)
    }
    // The definition itself is changed, not a copy, because a codec refers to its definition.
    const definition: unknown = Object.assign(value, { plugin: version })
    if (isCodec) codecs.push(definition as CodecDefinition)
    else components.push(definition as AnyDefinition)
  }
  if (components.length + codecs.length === 0)
    throw new Error(
      'it does not export a component or codec that was made with defineProcessor, defineSource, defineDestination or defineCodec of @sluice-logs/sluice/plugin',
    )
  return { components, codecs }
}

type Candidate = Readonly<Record<string, unknown>>

/** Exports that look like definitions, by name. A definition that is exported twice is listed once. */
function candidates(exports: ModuleExports): Map<string, Candidate> {
  const { default: preset, ...named } = exports
  const listed = Array.isArray(preset) ? preset.entries() : isDefinition(preset) ? [['default', preset] as const] : []
  // If the module is a CommonJS module, Node.js offers its exports as the default export.
  const inside = Array.isArray(preset) || isDefinition(preset) || !isObject(preset) ? [] : Object.entries(preset)
  const found = new Map<unknown, string>()
  for (const [name, value] of [...Object.entries(named), ...inside, ...listed])
    if (isDefinition(value) && !found.has(value)) found.set(value, typeof name === 'number' ? `default[${name}]` : name)
  return new Map([...found].map(([value, name]) => [name, value as Candidate]))
}

const isObject = (value: unknown): value is Candidate => typeof value === 'object' && value !== null

function isDefinition(value: unknown): boolean {
  return isObject(value) && 'create' in value && 'options' in value && ('kind' in value || 'form' in value)
}

function checkContract(name: string, contract: unknown): void {
  if (contract === CONTRACT) return
  const own = `this version of Sluice supports contract ${CONTRACT} for plugins`
  if (contract === undefined) throw new Error(`${name}.contract is missing; ${own}: write contract: ${CONTRACT}`)
  throw new Error(
    `${name} is for contract ${JSON.stringify(contract)}, but ${own}; use a version of the plugin for contract ${CONTRACT}`,
  )
}
