import type { z } from 'zod'
import {
  type ComponentContext,
  type Definition,
  defineDestination,
  type OptionProblem,
  type Promises,
} from '../../../core/component.js'
import { fieldsIn, type UsedField } from '../../../core/event/event-fields.js'
import { parseTemplate } from '../../../core/template.js'
import { keyFileWarnings } from '../../key.js'
import { type ClientOptions, plainKeyHost } from './options.js'
import type { RequestFormat } from './request-format.js'

interface HttpDefinition<S extends z.ZodObject> extends Omit<Definition<'destination', S>, 'kind' | 'create'> {
  /** Only plugins may lack promises. */
  readonly promises: Promises
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
    // Fails now, instead of with the first request, where WebAssembly cannot run.
    if (clientOptionsOf(options).compression === 'snappy') await (await import('./snappy.js')).snappy([], 0)
    return new HttpDestination(clientOptionsOf(options), format(options, context), context)
  }
  return defineDestination<S>({
    explains: async () => {
      const { explainRequests } = await import('./explain-requests.js')
      return {
        explain: (options, context) => explainRequests(format(options, context), clientOptionsOf(options), context),
      }
    },
    inspects: async () => ({
      async check(options, context, signal) {
        const destination = await create(options, context)
        try {
          await destination.start(signal)
          return await destination.check(signal)
        } finally {
          await destination.stop()
        }
      },
    }),
    ...definition,
    checks: async () => {
      const own = await definition.checks?.()
      return {
        ...own,
        warnings: async (options, upstream) => [
          ...warningsOf(clientOptionsOf(options)),
          ...((await own?.warnings?.(options, upstream)) ?? []),
        ],
      }
    },
    usesFields: options => [...fieldsOf(clientOptionsOf(options)), ...(definition.usesFields?.(options) ?? [])],
    create,
  })
}

/** The fields to which template options refer. */
function fieldsOf({ url, headers }: ClientOptions): UsedField[] {
  const rejected = 'every event is rejected'
  const templates = { url: parseTemplate(url), headers: Object.values(headers).map(text => parseTemplate(text)) }
  return fieldsIn(templates, { url: rejected, headers: rejected })
}

function warningsOf(options: ClientOptions): OptionProblem[] {
  const host = plainKeyHost(options)
  const plain = 'the access key is sent without encryption to another machine; use https'
  return [...(host === undefined ? [] : [{ path: ['url'], message: plain }]), ...keyFileWarnings(options.auth)]
}
