import { z } from 'zod'
import { encodeNdjson, RawEncoder } from '../codec/encode.js'
import type { EventBatch } from '../core/batch.js'
import { type Destination, type DestinationContext, defineDestination } from '../core/component.js'
import { LOCAL } from '../core/delivery-options.js'
import { DeliveryError, errorText } from '../core/errors.js'
import { written } from '../core/explain.js'

const options = z.strictObject({
  encoding: z
    .enum(['json', 'raw'])
    .default('raw')
    .describe('raw: the line as it was read, a changed event as JSON. json: every event as a line of JSON.'),
})

class Stdout implements Destination {
  readonly #stream: NodeJS.WritableStream
  readonly #raw: RawEncoder | undefined

  constructor({ encoding }: z.output<typeof options>, context: DestinationContext) {
    this.#stream = context.stdout
    this.#raw = encoding === 'raw' ? new RawEncoder() : undefined
  }

  write(request: readonly EventBatch[]): Promise<void> {
    const { parts } = this.#raw ? this.#raw.encode(request) : encodeNdjson(request)
    return new Promise((resolve, reject) => {
      // The last part's callback comes after those before it; one error is enough.
      const written = (error?: Error | null) =>
        error
          ? reject(new DeliveryError(errorText(error), { failure: 'retry', reason: 'write', cause: error }))
          : resolve()
      parts.forEach((part, i) => {
        this.#stream.write(part, i === parts.length - 1 ? written : undefined)
      })
      if (parts.length === 0) resolve()
    })
  }
}

export const stdout = defineDestination({
  type: 'stdout',
  summary: 'Writes events to standard output.',
  options,
  examples: [{ title: 'Every event as JSON', yaml: 'encoding: json\n' }],
  delivery: LOCAL,
  create: (options, context) => new Stdout(options, context),
  explain:
    ({ encoding }) =>
    batch => ({
      outcome: 'delivered',
      findings: [{ text: 'to standard output' }],
      bytes: written(encoding === 'raw' ? new RawEncoder().encode([batch]) : encodeNdjson([batch])),
    }),
})
