import type { z } from 'zod'
import {
  type ComponentContext,
  type Definition,
  defineDestination,
  type OptionWarning,
} from '../../../core/component.js'
import { written } from '../../../core/explain.js'
import { keyFileWarnings } from '../../key.js'
import type { ClientOptions } from './options.js'
import type { RequestFormat } from './request-format.js'
import { plainKeyHost, withoutQuery } from './urls.js'

interface HttpDefinition<S extends z.ZodObject> extends Omit<Definition<'destination', S>, 'kind' | 'create'> {
  /** The format of its requests for these options, which include all of `clientOptions`. */
  format(options: z.output<S>, context: ComponentContext): RequestFormat
}

/** Declares a destination that sends over HTTP by its options and its request format. The rest is in HttpDestination. */
export function defineHttpDestination<S extends z.ZodObject & z.ZodType<ClientOptions>>({
  format,
  ...definition
}: HttpDefinition<S>) {
  // The compiler cannot infer this for a generic type.
  const clientOptionsOf = (options: z.output<S>) => options as unknown as ClientOptions
  return defineDestination<S>({
    warnings: options => warningsOf(clientOptionsOf(options)),
    explain: (options, context) => {
      const requests = format(options, context)
      const { method = 'POST', url } = requests
      const { compression } = clientOptionsOf(options)
      const sent = `${method} ${withoutQuery(url)}${compression === 'none' ? '' : `, compressed by ${compression}`}`
      return batch => ({ outcome: 'delivered', findings: [{ text: sent }], bytes: written(requests.encode([batch])) })
    },
    ...definition,
    create: async (options, context) => {
      const { HttpDestination } = await import('./http-destination.js')
      return new HttpDestination(clientOptionsOf(options), format(options, context), context)
    },
  })
}

function warningsOf(options: ClientOptions): OptionWarning[] {
  const host = plainKeyHost(options)
  const plain = 'the access key is sent without encryption to another machine; use https'
  return [...(host === undefined ? [] : [{ path: ['url'], message: plain }]), ...keyFileWarnings(options.auth)]
}
