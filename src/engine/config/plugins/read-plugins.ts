import type { CodecDefinition } from '../../../core/codec.js'
import { loadedCodecs } from '../../../core/codecs/loaded.js'
import type { AnyDefinition } from '../../../core/component.js'
import { type ConfigSource, readConfig } from '../yaml/files.js'
import { type ConfigNode, type MapNode, type ScalarNode, withVariable } from '../yaml/node.js'
import { type FoundProblem, Problems } from '../yaml/problems.js'
import type { Plugins } from './load-plugins.js'
import { pluginKey } from './plugin-key.js'

/** Reads a configuration and loads its plugins. Reports no problems, because `loadConfig` reports them later. */
export async function readWithPlugins(
  path: string | undefined,
  env: NodeJS.ProcessEnv,
): Promise<ConfigSource & { readonly plugins: Plugins }> {
  const source = readConfig(path)
  const listed = source.files.flatMap(({ file, tree }) => {
    const root = tree(env, new Problems())
    if (root?.kind !== 'map') return []
    return [...namesIn(root), ...namesIn(serviceOf(root))].map(({ value }) => ({ file, name: value }))
  })
  const plugins = listed.length > 0 && (await (await import('./load-plugins.js')).loadPlugins(listed))
  return { ...source, plugins: plugins || new Map() }
}

export function filesOf(plugins: Plugins): readonly string[] {
  return [...plugins.values()].flatMap(({ files }) => files)
}

/**
 * The components that a configuration can use, and the codecs of its plugins. `codecs` is undefined if the
 * configuration must not list plugins.
 */
export interface KnownComponents {
  readonly components: readonly AnyDefinition[]
  readonly codecs: readonly CodecDefinition[] | undefined
}

export function servicePlugins(root: MapNode, plugins: Plugins | undefined, found: FoundProblem): ServicePlugin[] {
  const nodes = namesIn(serviceOf(root))
  if (plugins) added(nodes, ['service', 'plugins'], [], plugins, found)
  return nodes.map(({ source, value }) => ({ file: source.file, name: value }))
}

export interface ServicePlugin {
  readonly file: string
  readonly name: string
}

/** Returns `components` and the definitions of the configuration's plugins. Reports problems of plugins. */
export function withPlugins(
  root: MapNode,
  components: readonly AnyDefinition[],
  plugins: Plugins | undefined,
  found: FoundProblem,
): KnownComponents {
  const nodes = namesIn(root)
  if (plugins) return added(nodes, ['plugins'], components, plugins, found)
  if (nodes.length > 0) found.problems.add(root.entries.get('plugins')!.key, ['plugins'], NOT_HERE)
  return { components, codecs: undefined }
}

function added(
  nodes: readonly Name[],
  at: readonly string[],
  components: readonly AnyDefinition[],
  plugins: Plugins,
  { problems, warnings }: FoundProblem,
): KnownComponents {
  const all = [...components]
  const codecs: CodecDefinition[] = []
  const seen = new Set<unknown>()
  for (const [i, node] of nodes.entries()) {
    const plugin = plugins.get(pluginKey(node.source.file, node.value))!
    const path = [...at, i]
    if (seen.has(plugin)) continue
    seen.add(plugin)
    if (plugin.problem !== undefined) problems.add(node, path, withVariable(node, plugin.problem, true))
    if (plugin.warning !== undefined) warnings.add(node, path, withVariable(node, plugin.warning, true))
    for (const definition of plugin.components) {
      const { kind, type } = definition
      const other = all.find(known => known.kind === kind && known.type === type)
      if (other) problems.add(node, path, taken(`${kind} ${type}`, other.plugin))
      else all.push(definition)
    }
    for (const definition of plugin.codecs) {
      const other = [...loadedCodecs(), ...codecs].find(({ name }) => name === definition.name)
      if (other) problems.add(node, path, taken(`codec ${definition.name}`, other.plugin))
      else codecs.push(definition)
    }
  }
  return { components: all, codecs }
}

const NOT_HERE = 'cannot be listed here: only the local configuration of the machine that runs the code can load it'

function taken(what: string, plugin: string | undefined): string {
  const owner = plugin === undefined ? 'comes with Sluice' : `is defined by ${plugin.split(' ')[0]}`
  return `there already is a ${what}, which ${owner}; give this one another name`
}

type Name = ScalarNode & { value: string }

function serviceOf(root: MapNode): MapNode | undefined {
  const service = root.entries.get('service')?.value
  return service?.kind === 'map' ? service : undefined
}

function namesIn(map: MapNode | undefined): Name[] {
  const list = map?.entries.get('plugins')?.value
  return list?.kind === 'list' ? list.items.filter(isName) : []
}

function isName(node: ConfigNode): node is Name {
  return node.kind === 'scalar' && typeof node.value === 'string' && node.value !== '' && !node.broken
}
