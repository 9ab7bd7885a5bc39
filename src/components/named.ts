import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { loadCodecsNamed } from '../core/codecs/named.js'
import type { AnyDefinition, Kind } from '../core/component.js'
import { ConfigError } from '../core/errors.js'
import { type Config, type LoadOptions, loadConfig } from '../engine/config/load.js'
import { textsOf } from '../engine/config/yaml/files.js'
import { Problems } from '../engine/config/yaml/problems.js'

/**
 * Loads only the components whose types occur in the text of a configuration, because loading all components would be
 * one of the slowest steps of a daemon's start. The search does not find types in an unusual notation. So if a
 * configuration is invalid with these components, it must be read again with all components (list.ts).
 */

const KINDS: readonly Kind[] = ['source', 'processor', 'destination']
/** By kind and type: the file of each component whose folder does not have the name of its type. */
const PLACES: Readonly<Record<string, string>> = {
  'source stdin': 'stdio/source',
  'destination stdout': 'stdio/destination',
}
const TYPE = /\btype["']?\s*:\s*["']?(\w+)/g

export async function componentsNamed(texts: readonly string[]): Promise<AnyDefinition[]> {
  const types = new Set(texts.flatMap(text => [...text.matchAll(TYPE)].map(([, type]) => type!)))
  const found = KINDS.flatMap(kind => [...types].map(type => definitionOf(kind, type)))
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
export async function loadQuickly(path: string, options: Omit<LoadOptions, 'components'>): Promise<Config> {
  // If there are plugins, loads all components, to check that no plugin has the same type as a component.
  const config = options.plugins?.size ? undefined : await loadNamed(path, options)
  // Problems and warnings are correct and well explained only if all components are loaded.
  if (config?.warnings.length === 0) return config
  const { components } = await import('./list.js')
  return loadConfig(path, { ...options, components })
}

/** Loads a configuration with the components and codecs that its text names. Returns undefined if it is invalid. */
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
