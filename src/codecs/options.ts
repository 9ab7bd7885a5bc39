import { z } from 'zod'
import type { Codec, CodecDefinition } from '../core/codec.js'
import { codecOf, codecs } from './list.js'

/** The two ways to name a codec: `json`, or with options `{ codec: csv, delimiter: ';' }`. */
function choice(definitions: readonly CodecDefinition[], others: readonly string[] = []) {
  const [first, ...rest] = definitions.map(({ name, options }) =>
    z.strictObject({ codec: z.literal(name), ...options.shape }),
  )
  return z.union([
    z.enum([...definitions.map(({ name }) => name), ...others]),
    z.discriminatedUnion('codec', [first!, ...rest]),
  ])
}

type Choice = string | { readonly codec: string }

function made(given: Choice): Codec {
  const { codec, ...options } = typeof given === 'string' ? { codec: given } : given
  return codecOf(codec, options)!
}

/** How a source reads lines. */
export function decodeOption() {
  const all = choice(codecs)
  return all
    .meta({ title: 'codec' })
    .transform((given): Codec => made(given as Choice))
    .prefault('text')
    .describe(`What a line is. Lines that are something else are kept as text, and counted.`)
}
