import { z } from 'zod'
import type { AnyDefinition, Kind } from '../../core/component.js'
import { deliveryOptions, deliveryOptionsWith } from '../../core/options/delivery-options.js'
import { duration, listenAddress } from '../../core/options/options.js'
import { filePath } from '../../core/options/reach.js'
import { managedOptions } from './published/managed-options.js'
import { serviceOptions } from './service-options.js'
import { statusPage } from './status-page-options.js'
import { tests } from './test-options.js'

export { SECTIONS } from './yaml/path.js'

export const KINDS = ['source', 'processor', 'destination'] as const satisfies readonly Kind[]

export const COMPONENT_ID = /^[a-z][a-z0-9_]*$/
/** Maximum length of an id. Ids appear in file names and metric labels. */
export const LONGEST_ID = 128

/** The options at the top level, besides the sections of components. */
export const settings = z.strictObject({
  data_dir: filePath()
    .optional()
    .describe(
      'Folder of checkpoints and buffers, relative to the current directory. Default: $STATE_DIRECTORY if systemd sets it; for a configuration in ~/.config/sluice, ~/.local/state/sluice; otherwise ./state. Only one daemon at a time can use it. Other users must not be able to write to it.',
    ),
  metrics: z
    .union(
      [
        z.literal(false),
        z.strictObject({
          listen: listenAddress()
            .prefault('127.0.0.1:9598')
            .describe('HOST:PORT, or systemd:NAME. `sluice serve`: by default 127.0.0.1:9599.'),
        }),
      ],
      {
        error: 'must be false, or a mapping such as {listen: 127.0.0.1:9598}',
      },
    )
    .prefault({})
    .describe('Address of /metrics, /livez (also as /healthz) and /readyz. `metrics: false` disables them.'),
  status_page: statusPage,
  log: z
    .strictObject({
      format: z
        .enum(['text', 'json'])
        .optional()
        .describe(
          'text: lines for people, with the local time, the level as a word, the message and its fields as name=value. json: one JSON object per line. Default: text if standard error is a terminal, otherwise json.',
        ),
    })
    .prefault({})
    .describe(
      'The log of the daemon and of the service, on standard error. Changes are applied on reload. SLUICE_LOG_LEVEL in the environment sets the level.',
    ),
  reload: z
    .enum(['signal', 'watch'])
    .default('signal')
    .describe(
      'When to reload the configuration. signal: on SIGHUP. watch: also one second after its files change, including replaced files and switched symbolic links (as in a ConfigMap). An invalid configuration is not applied.',
    ),
  shutdown_timeout: duration()
    .prefault('30 Seconds')
    .describe(
      'Time limit of a shutdown. Events that are not delivered by then are read again after the next start, if their source allows it.',
    ),
  plugins: z
    .array(filePath())
    .default([])
    .describe(
      'Modules with components and codecs of your own, made with `@sluice-logs/sluice/plugin` (docs/plugins.md): files such as ./company.ts, relative to this file, or packages in a node_modules folder beside or above this file. A reload applies changed files. Plugins have all rights of the daemon.',
    ),
  discard_orphans: z
    .array(z.string().regex(COMPONENT_ID))
    .default([])
    .describe(
      'Ids of removed components whose data in data_dir is to be deleted: saved positions and buckets, disk buffers with undelivered events, rejected events. This data is deleted once the configuration runs. Data of other removed components is kept and reported.',
    ),
  tests,
  managed: managedOptions
    .prefault({})
    .describe(
      'What a published pipeline may do on this machine (`sluice run --pipeline`). Only the local configuration can set it.',
    ),
  service: serviceOptions.optional().describe('Options of the service (`sluice serve`). The daemon does not use them.'),
})
export type Settings = z.output<typeof settings>

export const inputs = z
  .array(z.string().min(1))
  .min(1)
  .describe('Ids of the sources and processors to read from; `id.name` for a side output.')

const renamed = z.strictObject({
  renamed_from: z
    .string()
    .regex(COMPONENT_ID)
    .optional()
    .describe(
      'Previous id of this component. The component takes over the data of this id in data_dir: positions, saved buckets, disk buffer, spool, dead-letter queue. On reload, a processor with the same options also takes over the state in memory. The option may remain set.',
    ),
})
const processing = renamed.extend({
  on_error: z
    .enum(['pass', 'discard', 'dead_letter'])
    .default('pass')
    .describe(
      'What happens to an event that cannot be processed. pass: it passes unchanged, with the additional field `processing_error` (`component`, `message`). discard: it is discarded (`processing_failed`). dead_letter: it is discarded, and kept in a dead-letter queue in data_dir.',
    ),
})

export const commonSchema = (kind: Kind): z.ZodObject => (kind === 'processor' ? processing : renamed)

type DeliverySchema = z.ZodObject<z.ZodRawShape>
const deliverySchemas = new WeakMap<AnyDefinition, DeliverySchema>()

/** The schema of the delivery options that a destination does not declare itself. Defaults depend on its type. */
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

export function componentSchema(definition: AnyDefinition): z.ZodObject {
  const type = z.literal(definition.type).describe(definition.summary)
  const shape = definition.options.shape as z.ZodRawShape
  const common = commonSchema(definition.kind).shape
  if (definition.kind === 'source') return z.strictObject({ type, ...shape, ...common })
  if (definition.kind === 'processor') return z.strictObject({ type, inputs, ...shape, ...common })
  return z.strictObject({ type, inputs, ...shape, ...deliverySchema(definition).shape, ...common })
}

/** The schema of a whole document. Connections, and rules that concern several options, are checked in load.ts. */
export function configSchema(components: readonly AnyDefinition[]): z.ZodObject {
  const section = (kind: Kind) => {
    const schemas = components.filter(definition => definition.kind === kind).map(componentSchema)
    return z.record(
      z.string().regex(COMPONENT_ID).max(LONGEST_ID),
      z.discriminatedUnion('type', schemas as unknown as [z.ZodObject<{ type: z.ZodLiteral }>]),
    )
  }
  return z.strictObject({
    ...settings.shape,
    sources: section('source').describe('Where events come from.'),
    processors: section('processor').optional().describe('How events are processed.'),
    destinations: section('destination').describe('Where events go.'),
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
