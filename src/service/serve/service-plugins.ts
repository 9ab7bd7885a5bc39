import { components } from '../../components/list.js'
import { useCodecs } from '../../core/codecs/options.js'
import type { AnyDefinition } from '../../core/component.js'
import { definitionsOf } from '../../engine/config/plugins/load-plugins.js'
import type { ServicePlugin } from '../../engine/config/plugins/read-plugins.js'

/** The components that published pipelines may use. Registers plugin codecs. Throws if a plugin fails to load. */
export async function componentsWith(plugins: readonly ServicePlugin[]): Promise<readonly AnyDefinition[]> {
  if (plugins.length === 0) return components
  const { components: more, codecs } = await definitionsOf(plugins)
  useCodecs(codecs)
  return [...components, ...more]
}
