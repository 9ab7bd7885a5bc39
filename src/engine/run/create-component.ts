import { loadCodecs } from '../../core/codec.js'
import type { Kind, Kinds } from '../../core/component.js'
import { ConfigError, OptionError } from '../../core/errors.js'
import type { ComponentConfig } from '../config/load.js'
import { SECTIONS } from '../config/yaml/path.js'

/** Creates a component. If a file that an option names cannot be used, throws ConfigError with the option's place. */
export async function createComponent<K extends Kind>(
  config: ComponentConfig,
  context: Kinds[K]['context'],
): Promise<Kinds[K]['component']> {
  const { id, kind, options, reach, place } = config
  const definition = config.definition as { create: (o: unknown, c: unknown) => Kinds[K]['component'] }
  try {
    loadCodecs(options as object, reach)
    return await definition.create(options, context)
  } catch (error) {
    if (!(error instanceof OptionError)) throw error
    const path = `${SECTIONS[kind]}.${id}.${error.option}`
    throw new ConfigError([{ file: '', line: 1, column: 1, ...place, path, message: error.message }])
  }
}
