import { z } from 'zod'
import { type Codec, type CodecDefinition, loadCodec } from '../../../core/codec.js'
import { codecDefinition, codecs } from '../../../core/codecs/list.js'
import { codecName } from '../../../core/codecs/options.js'
import type { OptionProblem } from '../../../core/component.js'
import { errorCode, errorText } from '../../../core/errors.js'
import { refuseAt } from '../../../core/options/options.js'
import type { Reach } from '../../../core/options/reach.js'
import { timestamp } from './timestamp.js'

const isParser = ({ form }: CodecDefinition): boolean => form !== 'message'
/** The built-in codecs. For a codec of a plugin, only its name can be given, because its options are unknown here. */
const PARSERS: readonly CodecDefinition[] = [...codecs.filter(isParser), timestamp]

/** `timestamp` is only for fields, not for sources. */
const definitionOf = (name: unknown) => (name === timestamp.name ? timestamp : codecDefinition(name))

type Given = Readonly<Record<string, unknown>>

/** The options of all codecs in one shape, without `codec` itself. */
function optionsOfAll(): Record<string, z.ZodType> {
  const variants = new Map<string, { schema: z.ZodType; owners: string[] }[]>()
  for (const { name, options } of PARSERS) {
    for (const [option, schema] of Object.entries(options.shape as Record<string, z.ZodType>)) {
      const known = variants.get(option) ?? []
      const same = known.find(({ schema: other }) => other === schema)
      if (same) same.owners.push(name)
      else known.push({ schema, owners: [name] })
      variants.set(option, known)
    }
  }
  const shape: Record<string, z.ZodType> = {}
  for (const [option, all] of variants) {
    const [first, second, ...rest] = all.map(({ schema }) => withoutDefault(schema))
    const text = all.map(({ schema, owners }) => `${owners.join(', ')}: ${schema.description}`).join(' ')
    shape[option] = (second ? z.union([first!, second, ...rest]) : first!).optional().describe(text)
  }
  return shape
}

/** Removes the default of an option, because the default would also set the option for codecs that do not have it. */
function withoutDefault(schema: z.ZodType): z.ZodType {
  const { type, innerType } = schema._zod.def as unknown as { type: string; innerType: z.ZodType }
  return ['default', 'prefault', 'optional'].includes(type) ? withoutDefault(innerType) : schema
}

export const codecShape = {
  codec: codecName(isParser, [timestamp.name]),
  ...optionsOfAll(),
}
const optionNames = Object.keys(codecShape).filter(name => name !== 'codec')

/** Reports options that the chosen codec does not have, and problems with the options that it has. */
export function checkCodecOptions(given: Given, context: z.RefinementCtx): void {
  const definition = definitionOf(given.codec)
  const own = definition?.options.shape ?? {}
  for (const option of optionNames) {
    if (given[option] === undefined || Object.hasOwn(own, option)) continue
    const owners = PARSERS.filter(({ options }) => Object.hasOwn(options.shape, option)).map(({ name }) => name)
    const chosen = definition ? `not of ${definition.name}` : 'and codec is not given'
    refuseAt(context, [option], `is an option of ${owners.join(' and ')}, ${chosen}`)
  }
  if (!definition) return
  const parsed = definition.options.safeParse(optionsOf(definition, given))
  for (const { path, message } of parsed.error?.issues ?? []) {
    const [option] = path
    const isMissing = option !== undefined && given[option as string] === undefined
    const text = isMissing ? `is missing: ${definition.name} needs it` : message
    refuseAt(context, path as (string | number)[], text)
  }
  if (!parsed.success) return
  try {
    definition.create(parsed.data as never)
  } catch (error) {
    refuseAt(context, [Object.hasOwn(own, 'pattern') ? 'pattern' : 'codec'], (error as Error).message)
  }
}

function optionsOf({ options }: CodecDefinition, given: Given): Given {
  const names = Object.keys(options.shape).filter(name => given[name] !== undefined)
  return Object.fromEntries(names.map(name => [name, given[name]]))
}

/** Creates the codec. `checkCodec` must have accepted the options. */
export function codecFrom(given: Given): Codec {
  const definition = definitionOf(given.codec)!
  return definition.create(definition.options.parse(optionsOf(definition, given)) as never)
}

/** Creates the codecs to try in turn. Reads their files, which `reach` must allow. Throws OptionError. */
export function codecsToTry({ try: tried, ...rest }: Given, reach: Reach | undefined): Codec[] {
  const codecs = ((tried as readonly Given[] | undefined) ?? [rest]).map(codecFrom)
  for (const [i, codec] of codecs.entries())
    loadCodec(codec, tried ? `try[${i}].descriptor_file` : 'descriptor_file', reach)
  return codecs
}

export function codecProblems({ try: tried, ...rest }: Given): OptionProblem[] {
  return ((tried as readonly Given[] | undefined) ?? [rest]).flatMap((given, i) => {
    try {
      codecFrom(given).load?.()
      return []
    } catch (error) {
      const isMissing = errorCode((error as Error).cause) !== undefined
      const path = [...(tried ? ['try', i] : []), 'descriptor_file']
      return [{ path, message: errorText(error), ...(isMissing && { isWarning: true as const }) }]
    }
  })
}
