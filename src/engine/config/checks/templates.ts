import { z } from 'zod'
import { TEMPLATE } from '../../../core/template.js'
import { unwrapped } from '../schema.js'
import type { ConfigNode } from '../yaml/node.js'
import type { Path } from '../yaml/path.js'
import type { Problems } from '../yaml/problems.js'

/**
 * Keeps references to fields in the value of each option that is a template. Any other option has one value for all
 * events, so a reference to a field in such an option is reported. `schema` has the path `base`.
 */
export function placeTemplates(
  node: ConfigNode,
  path: Path,
  schema: z.core.$ZodType,
  problems: Problems,
  base = path,
): void {
  if (node.kind === 'map') {
    for (const [key, { value }] of node.entries) placeTemplates(value, [...path, key], schema, problems, base)
  } else if (node.kind === 'list') {
    for (const [i, item] of node.items.entries()) placeTemplates(item, [...path, i], schema, problems, base)
  } else if (node.template) {
    const { text, field, unset } = node.template
    const schemas = path.slice(base.length).reduce(within, [schema])
    const isForEach = schemas.flatMap(variants).some(isTemplate)
    if (node.broken) {
      if (isForEach && unset !== undefined)
        problems.add(node, path, `if ${unset} is a field of the event, write \${.${unset}}`)
    } else if (isForEach) node.value = text
    else if (field !== undefined) {
      const message = `${field} stands for the value of a field, but this option is the same for all events; write $\${ for "\${" itself`
      problems.add(node, path, message)
      node.broken = true
    }
  }
}

interface Def {
  readonly shape?: Readonly<Record<string, z.core.$ZodType>>
  readonly valueType?: z.core.$ZodType
  readonly element?: z.core.$ZodType
  readonly options?: readonly z.core.$ZodType[]
}

const defOf = (schema: z.core.$ZodType) => schema._zod.def as Def

/** Returns the schema without its wrappers. For a union, returns its branches. */
function variants(schema: z.core.$ZodType): readonly z.core.$ZodType[] {
  const inner = unwrapped(schema)
  return defOf(inner).options?.flatMap(variants) ?? [inner]
}

function within(schemas: readonly z.core.$ZodType[], step: string | number): readonly z.core.$ZodType[] {
  return schemas.flatMap(variants).flatMap(schema => {
    const { shape, valueType, element } = defOf(schema)
    const found = typeof step === 'number' ? element : shape ? own(shape, step) : valueType
    return found ? [found] : []
  })
}

const own = (shape: Readonly<Record<string, z.core.$ZodType>>, name: string) =>
  Object.hasOwn(shape, name) ? shape[name] : undefined

const isTemplate = (schema: z.core.$ZodType) => z.globalRegistry.get(schema)?.title === TEMPLATE
