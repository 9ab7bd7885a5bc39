import type { Codec, CodecDefinition } from '../codec.js'
import { json } from './json.js'
import { text } from './text.js'

/**
 * The codecs that are loaded, by name. Loading all of them takes a tenth of the start of a daemon, which needs those
 * that its configuration names (named.ts). What reads records that may name any codec imports list.ts, with all.
 */

let builtIn: readonly CodecDefinition[] = [json, text]

/** Those that come with the program. */
export const loadedCodecs = (): readonly CodecDefinition[] => builtIn

/** Replaces those that come with the program, by the same ones and more. */
export function setLoaded(definitions: readonly CodecDefinition[]): void {
  builtIn = definitions
}

/** Those of plugins, by name. They stay, since records on the disk may name them. */
const added = new Map<string, CodecDefinition>()

/** Makes codecs of plugins known by their names, in place of earlier versions. */
export function addCodecs(definitions: readonly CodecDefinition[]): void {
  for (const definition of definitions) added.set(definition.name, definition)
}

/** The definition of a codec; undefined: there is none of this name. */
export function codecDefinition(name: unknown): CodecDefinition | undefined {
  return builtIn.find(codec => codec.name === name) ?? added.get(name as string)
}

/** Creates the codec with this name. Throws if there is none, or if it cannot have these options. */
export function createCodec(name: string, options: unknown): Codec {
  const definition = codecDefinition(name)
  if (!definition) throw new Error(`there is no codec ${name}`)
  const parsed = definition.options.safeParse(options)
  const [issue] = parsed.error?.issues ?? []
  if (issue) {
    const option = issue.path.join('.')
    const isMissing = issue.path.length === 1 && !Object.hasOwn(Object(options), option)
    throw new Error(
      isMissing
        ? `${name} needs the option ${option}, as in {codec: ${name}, ${option}: …}`
        : `${name} needs other options: ${option}: ${issue.message}`,
    )
  }
  return definition.create(parsed.data as never)
}

/** Like `createCodec`; undefined where that throws. */
export function codecOf(name: string, options: unknown = {}): Codec | undefined {
  try {
    return createCodec(name, options)
  } catch {
    return undefined
  }
}
