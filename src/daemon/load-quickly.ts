import { componentsNamed } from '../components-named.js'
import { type Config, type LoadOptions, loadConfig } from '../config/load.js'
import { Problems } from '../config/yaml/problems.js'
import { textsOf } from '../config/yaml/texts.js'
import { ConfigError } from '../core/errors.js'

/** Loads a configuration, and no components but those that it has. Throws ConfigError. */
export async function loadQuickly(path: string, options: Omit<LoadOptions, 'components'>): Promise<Config> {
  const texts = textsOf(path, new Problems()).map(({ text }) => text)
  try {
    return loadConfig(path, { ...options, components: await componentsNamed(texts) })
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    // What is wrong is only certain, and well explained, with all that there is.
    const { components } = await import('../components.js')
    return loadConfig(path, { ...options, components })
  }
}
