import type { Codec, CodecDefinition } from '../codec.js'
import { json } from './json.js'
import { textCodec } from './text.js'

/**
 * The built-in codecs that are loaded. Loading all built-in codecs takes a tenth of the start time of the daemon. So
 * the daemon loads only the codecs that its configuration names (named.ts). Code that reads records of any codec
 * imports list.ts, which loads all codecs.
 */

let builtIn: readonly CodecDefinition[] = [json, textCodec]

export const loadedCodecs = (): readonly CodecDefinition[] => builtIn

/** Replaces the loaded built-in codecs. `definitions` must include the codecs that were loaded before. */
export function setLoaded(definitions: readonly CodecDefinition[]): void {
  builtIn = definitions
}

/** Codecs of plugins, by name. They are never removed, because records on disk may name them. */
const added = new Map<string, CodecDefinition>()

/** Registers codecs of plugins by name, replacing earlier versions. */
export function addCodecs(definitions: readonly CodecDefinition[]): void {
  for (const definition of definitions) added.set(definition.name, definition)
}

export function codecDefinition(name: unknown): CodecDefinition | undefined {
  return builtIn.find(codec => codec.name === name) ?? added.get(name as string)
}

/** Creates the codec with this name. Throws if the name is unknown or the options are invalid. `usable`: as in `choice`. */
export function createCodec(
  name: string,
  options: unknown,
  usable?: (definition: CodecDefinition) => CodecDefinition | undefined,
): Codec {
  const named = codecDefinition(name)
  const definition = named && (usable?.(named) ?? named)
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

/** Like `createCodec`, but returns undefined instead of throwing. */
export function codecOf(name: string, options: unknown = {}): Codec | undefined {
  try {
    return createCodec(name, options)
  } catch {
    return undefined
  }
}
