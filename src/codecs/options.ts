import { z } from 'zod'
import type { Codec, CodecDefinition } from '../core/codec.js'
import { errorText } from '../core/errors.js'
import { byteSize, once, refuse } from '../core/options/options.js'
import type { Encoding } from './encode.js'
import { codecs, createCodec } from './list.js'

/**
 * A codec option: `json`, or with options `{ codec: csv, delimiter: ';' }`. `words` are additional values. `unfit`
 * explains why a codec cannot be used here.
 */
function choice(
  definitions: readonly CodecDefinition[],
  words: readonly string[] = [],
  unfit: ReadonlyMap<unknown, string> = new Map(),
) {
  const [first, ...rest] = definitions.map(({ name, summary, options }) =>
    z.strictObject({ codec: z.literal(name).describe(summary), ...options.shape }),
  )
  return z.union([
    z.enum([...words, ...definitions.map(({ name }) => name)], { error: ({ input }) => unfit.get(input) }),
    z.discriminatedUnion('codec', [first!, ...rest]),
  ])
}

/** Creates the chosen codec. The schema has validated its options, as far as each can be without the others. */
function made(chosen: string | { readonly codec: string }, context: z.RefinementCtx): Codec {
  const { codec, ...options } = typeof chosen === 'string' ? { codec: chosen } : chosen
  try {
    return createCodec(codec, options)
  } catch (error) {
    return refuse(context, errorText(error))
  }
}

const decoders = choice(codecs)

/** An option for a codec that decodes lines. */
export const codecOption = once(() =>
  decoders.meta({ title: 'codec' }).transform((chosen, context) => made(chosen as string | { codec: string }, context)),
)

export const decodeOption = once(() =>
  codecOption()
    .prefault('text')
    .describe('The codec that decodes lines. A line that it cannot decode is kept as text and counted.'),
)

/** The option for the longest line; `unit` is what the source calls a line. */
export function maxLineBytesOption(unit = 'line') {
  return byteSize(1024, 256 * 1024 * 1024)
    .prefault('1MiB')
    .describe(`A longer ${unit} is delivered in pieces marked \`partial\`.`)
}

const [reading, writing] = [false, true].map(writes =>
  codecs.filter(({ contentType }) => (contentType !== undefined) === writes),
)
const onlyRead = ({ name }: CodecDefinition) => {
  const others = ['raw', ...writing!.map(other => other.name)].join(', ')
  return `${name} can only be used to decode lines; use one of ${others}`
}
const encoders = choice(writing!, ['raw'], new Map(reading!.map(definition => [definition.name, onlyRead(definition)])))

export function encodingOption(preset: string) {
  return encoders
    .meta({ title: 'encoding' })
    .transform((chosen, context): Encoding => {
      if (chosen === 'raw') return 'raw'
      const codec = made(chosen as string | { codec: string }, context)
      return codec.encode ? codec : refuse(context, codec.definition.cannotEncode!)
    })
    .prefault(preset)
    .describe(
      'raw: the line as it was read, or JSON for a modified event. json or another codec that encodes: every event as a line in this format.',
    )
}
