import type { z } from 'zod'
import {
  type ComponentContext,
  type Definition,
  defineDestination,
  type OptionProblem,
} from '../../../core/component.js'
import type { UsedField } from '../../../core/event/event-fields.js'
import { written } from '../../../core/explain.js'
import { parseTemplate } from '../../../core/template.js'
import { keyFileWarnings } from '../../key.js'
import { type ClientOptions, plainKeyHost } from './options.js'
import type { RequestFormat } from './request-format.js'
import { RequestHeads } from './request-heads.js'
import { loadSnappy } from './snappy.js'

interface HttpDefinition<S extends z.ZodObject> extends Omit<Definition<'destination', S>, 'kind' | 'create'> {
  /** The format of requests for these options, which include all of `clientOptions`. */
  format(options: z.output<S>, context: ComponentContext): RequestFormat
}

/**
 * Declares a destination that sends over HTTP, by its options and request format. HttpDestination does the rest.
 * `usesFields` names the fields in the destination's own options; the fields in `clientOptions` are added.
 */
export function defineHttpDestination<S extends z.ZodObject & z.ZodType<ClientOptions>>({
  format,
  ...definition
}: HttpDefinition<S>) {
  // The compiler cannot infer this for a generic type.
  const clientOptionsOf = (options: z.output<S>) => options as unknown as ClientOptions
  const create = async (options: z.output<S>, context: ComponentContext) => {
    const { HttpDestination } = await import('./http-destination.js')
    if (clientOptionsOf(options).compression === 'snappy') await loadSnappy()
    return new HttpDestination(clientOptionsOf(options), format(options, context), context)
  }
  return defineDestination<S>({
    explain: (options, context) => {
      const requests = format(options, context)
      const { compression, headers } = clientOptionsOf(options)
      const heads = new RequestHeads(requests, headers, context.field)
      const compressed = compression === 'none' ? '' : `, compressed by ${compression}`
      return batch => {
        const { place } = heads.of(heads.partitionOf?.(batch, 0))
        const json = requests.json?.([batch])
        const text = place + compressed + (json ? '; the body, as JSON' : '')
        return { outcome: 'delivered', findings: [{ text }], bytes: written(json ?? heads.encode([batch])) }
      }
    },
    check: async (options, context, signal) => {
      const destination = await create(options, context)
      try {
        await destination.start(signal)
        return await destination.check(signal)
      } finally {
        await destination.stop()
      }
    },
    ...definition,
    warnings: (options, upstream) => [
      ...warningsOf(clientOptionsOf(options)),
      ...(definition.warnings?.(options, upstream) ?? []),
    ],
    usesFields: options => [...fieldsOf(clientOptionsOf(options)), ...(definition.usesFields?.(options) ?? [])],
    create,
  })
}

/** The fields to which template options refer. */
function fieldsOf({ url, headers }: ClientOptions): UsedField[] {
  const texts = [['url', url], ...Object.values(headers).map(value => ['headers', value])]
  return texts.flatMap(([option, text]) =>
    parseTemplate(text!).parts.flatMap(part => {
      if (typeof part === 'string') return []
      const { path, fallback } = part
      return { option: option!, path, ...(fallback === '' && { without: 'every event is rejected' }) }
    }),
  )
}

function warningsOf(options: ClientOptions): OptionProblem[] {
  const host = plainKeyHost(options)
  const plain = 'the access key is sent without encryption to another machine; use https'
  return [...(host === undefined ? [] : [{ path: ['url'], message: plain }]), ...keyFileWarnings(options.auth)]
}
