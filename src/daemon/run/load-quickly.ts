import { componentsNamed } from '../../components/named.js'
import { loadCodecsNamed } from '../../core/codecs/named.js'
import { ConfigError } from '../../core/errors.js'
import { type Config, type LoadOptions, loadConfig } from '../../engine/config/load.js'
import { textsOf } from '../../engine/config/yaml/files.js'
import { Problems } from '../../engine/config/yaml/problems.js'

/** Loads a configuration, and no components and codecs but those that it has. Throws ConfigError. */
export async function loadQuickly(path: string, options: Omit<LoadOptions, 'components'>): Promise<Config> {
  // Names of plugins must differ from all that there is.
  const config = options.plugins?.size ? undefined : await loadNamed(path, options)
  // What is wrong is only certain, and well explained, with all that there is. So are warnings.
  if (config?.warnings.length === 0) return config
  const { components } = await import('../../components/list.js')
  return loadConfig(path, { ...options, components })
}

/** Undefined: the configuration is wrong with the components and codecs that it seems to name. */
async function loadNamed(path: string, options: Omit<LoadOptions, 'components'>): Promise<Config | undefined> {
  const texts = textsOf(path, new Problems()).map(({ text }) => text)
  try {
    await loadCodecsNamed(texts)
    return loadConfig(path, { ...options, components: await componentsNamed(texts) })
  } catch (error) {
    if (error instanceof ConfigError) return undefined
    throw error
  }
}
