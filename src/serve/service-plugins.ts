import { useCodecs } from '../codecs/options.js'
import { components } from '../components.js'
import { definitionsOf } from '../config/plugins/load-plugins.js'
import type { ServicePlugin } from '../config/plugins/read-plugins.js'
import type { AnyDefinition } from '../core/component.js'

/** The components that published pipelines may use. Codecs of plugins are in use from now on. Throws if one fails to load. */
export async function componentsWith(plugins: readonly ServicePlugin[]): Promise<readonly AnyDefinition[]> {
  if (plugins.length === 0) return components
  const { components: more, codecs } = await definitionsOf(plugins)
  useCodecs(codecs)
  return [...components, ...more]
}
