import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { loadCodecsNamed } from '../core/codecs/named.js'
import type { AnyDefinition, Kind } from '../core/component.js'
import { ConfigError } from '../core/errors.js'
import { type Config, type LoadOptions, loadConfig } from '../engine/config/load.js'
import type { ConfigSource } from '../engine/config/yaml/files.js'
import { scalarsOf } from '../engine/config/yaml/node.js'
import { Problems } from '../engine/config/yaml/problems.js'

/**
 * Loads only the components and codecs that a configuration names, because loading all would be one of the slowest steps
 * of a daemon's start. Only the errors of an invalid configuration may list all of them (list.ts).
 */

const KINDS: readonly Kind[] = ['source', 'processor', 'destination']
/** By kind and type: the file of each component whose folder does not have the name of its type. */
const PLACES: Readonly<Record<string, string>> = {
  'source stdin': 'stdio/source',
  'destination stdout': 'stdio/destination',
}

export async function componentsNamed({ files }: ConfigSource, env: NodeJS.ProcessEnv): Promise<AnyDefinition[]> {
  const roots = files.flatMap(({ tree }) => tree(env, new Problems()) ?? [])
  const namesAt = (...keys: string[]) => scalarsOf(roots, keys).filter(name => /^\w+$/.test(name))
  await loadCodecsNamed(namesAt('codec', 'decode', 'encoding'))
  const found = KINDS.flatMap(kind => namesAt('type').map(type => definitionOf(kind, type)))
  return (await Promise.all(found)).filter(definition => definition !== undefined)
}

async function definitionOf(kind: Kind, type: string): Promise<AnyDefinition | undefined> {
  const name = type.replaceAll('_', '-')
  const place = kind === 'processor' ? `processors/${name}` : (PLACES[`${kind} ${type}`] ?? `${name}/${kind}`)
  const file = new URL(`${place}.js`, import.meta.url)
  if (!existsSync(fileURLToPath(file))) return undefined
  const module = (await import(file.href)) as Record<string, Partial<AnyDefinition> | undefined>
  return Object.values(module).find(one => one?.kind === kind && one.type === type) as AnyDefinition | undefined
}

/** Loads a configuration, and only the components and codecs that it names. Throws ConfigError. */
export async function loadQuickly(from: ConfigSource, options: Omit<LoadOptions, 'components'>): Promise<Config> {
  try {
    // If there are plugins, loads all components, to check that no plugin has the same type as a component.
    if (!from.plugins?.size)
      return loadConfig(from, { ...options, components: await componentsNamed(from, options.env) })
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
  }
  const { components } = await import('./list.js')
  return loadConfig(from, { ...options, components })
}
