import { z } from 'zod'
import type { Codec, CodecDefinition } from '../codec.js'
import type { OptionProblem } from '../component.js'
import { errorText } from '../errors.js'
import { byteSize, once, refuse } from '../options/options.js'
import { reaches } from '../options/reach.js'
import type { Encoding } from './encode.js'
import { addCodecs, createCodec, loadedCodecs, setLoaded } from './loaded.js'

let inUse: readonly CodecDefinition[] = loadedCodecs()

/** For each option: a function that replaces the codecs offered by this option. */
const choices: ((all: readonly CodecDefinition[]) => void)[] = []

/**
 * A codec option. Its value is a name such as `json`, or has options, as in `{ codec: csv, delimiter: ';' }`. `words`
 * are further allowed values. `usable` returns what a codec is here. `unfit` explains why it cannot be used.
 */
function choice(
  usable: (definition: CodecDefinition) => CodecDefinition | undefined = definition => definition,
  words: readonly string[] = [],
  unfit: (name: unknown) => string | undefined = () => undefined,
) {
  const variants = (all: readonly CodecDefinition[]) => {
    const definitions = all.flatMap(definition => usable(definition) ?? [])
    const [first, ...rest] = definitions.map(({ name, summary, options }) =>
      z.strictObject({ codec: z.literal(name).describe(summary), ...options.shape }),
    )
    return [
      z.enum([...words, ...definitions.map(({ name }) => name)], { error: ({ input }) => unfit(input) }),
      z.discriminatedUnion('codec', [first!, ...rest]),
    ] as const
  }
  const schema = z.union(variants(inUse))
  choices.push(all => (schema.def.options as unknown as unknown[]).splice(0, 2, ...variants(all)))
  return schema
}

/** Creates an option whose value must be one of the names in `others`, or the name of a codec that satisfies `fits`. */
export function codecName(fits: (definition: CodecDefinition) => boolean, others: readonly string[] = []) {
  const namesOf = (all: readonly CodecDefinition[]) => [...all.filter(fits).map(({ name }) => name), ...others]
  const names = namesOf(inUse)
  choices.push(all => names.splice(0, names.length, ...namesOf(all)))
  const name = z.string().check(({ value, issues }) => {
    if (!names.includes(value)) issues.push({ code: 'invalid_value', values: [...names], input: value })
  })
  return reaches('nothing', name.meta({ enum: names }))
}

export const codecsInUse = (): readonly CodecDefinition[] => inUse

/** Replaces the built-in codecs that options can name. */
export function offerCodecs(definitions: readonly CodecDefinition[]): void {
  const ofPlugins = inUse.filter(({ plugin }) => plugin !== undefined)
  setLoaded(definitions)
  choose(ofPlugins.length === 0 ? definitions : [...definitions, ...ofPlugins])
}

/** Sets the plugin codecs that options can name. This also changes existing schemas. */
export function useCodecs(definitions: readonly CodecDefinition[]): void {
  addCodecs(definitions)
  choose(definitions.length === 0 ? loadedCodecs() : [...loadedCodecs(), ...definitions])
}

/** Calls `work` while exactly these plugin codecs can be chosen. If `definitions` is undefined, keeps the codecs. */
export function withCodecs<T>(definitions: readonly CodecDefinition[] | undefined, work: () => T): T {
  if (!definitions) return work()
  const before = inUse
  useCodecs(definitions)
  try {
    return work()
  } finally {
    choose(before)
  }
}

function choose(all: readonly CodecDefinition[]): void {
  if (all === inUse) return
  inUse = all
  for (const change of choices) change(all)
}

/** Creates the chosen codec. The schema has already validated each option separately. */
function made(chosen: string | { readonly codec: string }, context: z.RefinementCtx, usable?: typeof writer): Codec {
  const { codec, ...options } = typeof chosen === 'string' ? { codec: chosen } : chosen
  try {
    return createCodec(codec, options, usable)
  } catch (error) {
    return refuse(context, errorText(error))
  }
}

const decoders = choice()

export const codecOption = once(() =>
  decoders.meta({ title: 'codec' }).transform((chosen, context) => made(chosen as string | { codec: string }, context)),
)

export const decodeOption = once(() =>
  codecOption()
    .prefault('text')
    .describe('The codec that decodes lines. A line that it cannot decode is kept as text and counted.'),
)

/** If the codec of the source could join divided lines, returns a warning that this source does not join them. */
export function dividedWarnings({ decode }: { readonly decode?: Codec | undefined }): OptionProblem[] {
  if (!decode?.definition.readPart) return []
  const message =
    'a line that the container runtime has divided is not joined here: its parts are separate events marked .partial. The sources file and stdin join them'
  return [{ path: ['decode'], message }]
}

/** Creates the option for the longest line; `unit` is what the source calls a line. */
export function maxLineBytesOption(unit = 'line') {
  return byteSize(1024, 256 * 1024 * 1024)
    .prefault('1MiB')
    .describe(`A longer ${unit} is delivered in pieces marked \`partial\`.`)
}

/** Returns the definition for encodings; undefined: the codec only decodes. */
export function writer(definition: CodecDefinition): CodecDefinition | undefined {
  return definition.encoder ?? (definition.contentType === undefined ? undefined : definition)
}
const onlyRead = (name: unknown) => {
  if (!inUse.some(codec => codec.name === name)) return undefined
  const others = ['raw', ...inUse.filter(writer).map(other => other.name)].join(', ')
  return `${name} can only be used to decode lines; use one of ${others}`
}
const encoders = choice(writer, ['raw'], onlyRead)

export function encodingOption(preset: string) {
  return encoders
    .meta({ title: 'encoding' })
    .transform((chosen, context): Encoding => {
      if (chosen === 'raw') return 'raw'
      const codec = made(chosen as string | { codec: string }, context, writer)
      if (context.issues.length > 0) return z.NEVER
      if (codec.framing?.isWhole) return refuse(context, 'records need a framing, which delimits them')
      return codec.encode ? codec : refuse(context, codec.definition.cannotEncode!)
    })
    .prefault(preset)
    .describe(
      'raw: the line as it was read; a modified event as JSON. json, or another codec that encodes: each event as a line in this format. text: one field of the event, `.message` by default, as in `{ codec: text, field: .log }`.',
    )
}
