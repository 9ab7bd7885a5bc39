import { z } from 'zod'
import type { AnyDefinition, Kind } from '../core/component.js'
import { deliveryOptions, deliveryOptionsWith } from '../core/options/delivery-options.js'
import { duration, listenAddress } from '../core/options/options.js'
import { filePath } from '../core/options/reach.js'
import { tests } from './checks/config-tests.js'
import { managedOptions } from './managed/managed-options.js'
import { serviceOptions } from './service-options.js'

export { SECTIONS } from './sections.js'

/** The schema of a whole configuration, assembled from the list of components. */

export const KINDS = ['source', 'processor', 'destination'] as const satisfies readonly Kind[]

export const ID = /^[a-z][a-z0-9_]*$/
/** Ids appear in file names and in labels of metrics. */
export const LONGEST_ID = 128

/** The options besides the sections of components. */
export const settings = z.strictObject({
  data_dir: filePath()
    .optional()
    .describe(
      'Folder of checkpoints and buffers, relative to the current directory. Without it: $STATE_DIRECTORY where systemd sets it, else ./state. One daemon at a time may use it.',
    ),
  metrics: z
    .union(
      [
        z.literal(false),
        z.strictObject({ listen: listenAddress().prefault('127.0.0.1:9598').describe('HOST:PORT, or systemd:NAME.') }),
      ],
      {
        error: 'must be false, or a mapping such as {listen: 127.0.0.1:9598}',
      },
    )
    .prefault({})
    .describe('Where /metrics, /healthz and /readyz are served. `metrics: false` switches them off.'),
  log: z
    .strictObject({
      format: z
        .enum(['text', 'json'])
        .optional()
        .describe(
          'text: lines for people, with the local time, the level as a word, the message and its fields as name=value. json: one JSON object a line. Without it: text where standard error is a terminal, json anywhere else.',
        ),
    })
    .prefault({})
    .describe(
      'The log of the daemon and of the service, on standard error. The daemon applies a change when it reloads. SLUICE_LOG_LEVEL in the environment sets the level.',
    ),
  reload: z
    .enum(['signal', 'watch'])
    .default('signal')
    .describe(
      'When the configuration is read again. signal: at SIGHUP. watch: also when its files change, a second later; a file that is replaced as a whole, and a symbolic link that is switched to another (a ConfigMap), count as well. One that is wrong changes nothing, and is tried again when it changes.',
    ),
  shutdown_timeout: duration()
    .prefault('30 Seconds')
    .describe('How long the end may take: what is not delivered by then stays where it can be read again.'),
  discard_orphans: z
    .array(z.string().regex(ID))
    .default([])
    .describe(
      'Old ids of components whose data in data_dir is not wanted any more: saved positions, disk buffers with undelivered events, dead letters. It is deleted once the configuration runs. Without it such data is kept, and reported.',
    ),
  tests,
  managed: managedOptions
    .prefault({})
    .describe(
      'What a pipeline that a service publishes may do on this machine (`sluice run --pipeline`). It is taken from the local configuration alone.',
    ),
  service: serviceOptions.optional().describe('Options of the service (`sluice serve`). The daemon does not use them.'),
})
export type Settings = z.output<typeof settings>

export const inputs = z
  .array(z.string().min(1))
  .min(1)
  .describe('Ids of the sources and processors whose events come in; `id.name` for a side output.')

const renamed = z.strictObject({
  renamed_from: z
    .string()
    .regex(ID)
    .optional()
    .describe(
      'The id that this component had before. At the start and at a reload it takes over what that one left in data_dir: the positions of a source, or the disk buffer and the dead letters of a destination. It may stay here afterwards.',
    ),
})
const processing = z.strictObject({
  on_error: z
    .enum(['pass', 'discard', 'dead_letter'])
    .default('pass')
    .describe(
      'What becomes of an event that cannot be processed. pass: it goes on as it is, with the field `processing_error` (`component`, `message`). discard: it is discarded, for the reason `processing_failed`. dead_letter: it is discarded for that reason, and kept in data_dir as the dead letters of destinations are.',
    ),
})

/** The options that all components of a kind have. */
export const commonSchema = (kind: Kind): z.ZodObject => (kind === 'processor' ? processing : renamed)

type DeliverySchema = z.ZodObject<z.ZodRawShape>
const deliverySchemas = new WeakMap<AnyDefinition, DeliverySchema>()

/** The delivery options that a destination's definition does not declare itself, with the defaults of its type. */
export function deliverySchema(definition: AnyDefinition): DeliverySchema {
  let schema = deliverySchemas.get(definition)
  if (!schema) {
    const all = definition.delivery ? deliveryOptionsWith(definition.delivery) : deliveryOptions
    const own = Object.keys(all.shape).filter(name => Object.hasOwn(definition.options.shape, name))
    schema = all.omit(Object.fromEntries(own.map(name => [name, true])) as never) as unknown as DeliverySchema
    deliverySchemas.set(definition, schema)
  }
  return schema
}

/** All options of one component of this type. */
export function componentSchema(definition: AnyDefinition): z.ZodObject {
  const type = z.literal(definition.type).describe(definition.summary)
  const shape = definition.options.shape as z.ZodRawShape
  const common = commonSchema(definition.kind).shape
  if (definition.kind === 'source') return z.strictObject({ type, ...shape, ...common })
  if (definition.kind === 'processor') return z.strictObject({ type, inputs, ...shape, ...common })
  return z.strictObject({ type, inputs, ...shape, ...deliverySchema(definition).shape, ...common })
}

/** The whole document. load.ts checks the topology and rules that span several options. */
export function configSchema(components: readonly AnyDefinition[]): z.ZodObject {
  const section = (kind: Kind) => {
    const schemas = components.filter(definition => definition.kind === kind).map(componentSchema)
    return z.record(
      z.string().regex(ID).max(LONGEST_ID),
      z.discriminatedUnion('type', schemas as unknown as [z.ZodObject<{ type: z.ZodLiteral }>]),
    )
  }
  return z.strictObject({
    ...settings.shape,
    sources: section('source').describe('Where events come from.'),
    processors: section('processor').optional().describe('What happens to them on the way.'),
    destinations: section('destination').describe('Where they go.'),
  })
}

/** The schema inside optional, default and similar wrappers. */
export function unwrapped(schema: z.core.$ZodType): z.core.$ZodType {
  const { innerType, in: input } = schema._zod.def as { innerType?: z.core.$ZodType; in?: z.core.$ZodType }
  const inner = innerType ?? input
  return inner ? unwrapped(inner) : schema
}

/** The shape of an object schema inside optional, default and similar wrappers; undefined for other schemas. */
export function shapeOf(schema: z.core.$ZodType): Readonly<Record<string, z.core.$ZodType>> | undefined {
  const { def } = unwrapped(schema)._zod as { def: { type: string; shape?: z.core.$ZodShape } }
  return def.type === 'object' ? def.shape : undefined
}
