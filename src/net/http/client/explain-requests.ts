import type { ComponentContext } from '../../../core/component.js'
import { type Explain, written } from '../../../core/explain.js'
import type { ClientOptions } from './options.js'
import type { RequestFormat } from './request-format.js'
import { RequestHeads } from './request-heads.js'

/** Explains what a destination over HTTP sends for an event. */
export function explainRequests(
  requests: RequestFormat,
  { compression, headers }: ClientOptions,
  context: ComponentContext,
): Explain {
  const heads = new RequestHeads(requests, headers, context.field)
  const compressed = compression === 'none' ? '' : `, compressed by ${compression}`
  return batch => {
    const { place } = heads.of(heads.partitionOf?.(batch, 0))
    const json = requests.json?.([batch])
    const text = place + compressed + (json ? '; the body, as JSON' : '')
    return { outcome: 'delivered', findings: [{ text }], bytes: written(json ?? heads.encode([batch])) }
  }
}
