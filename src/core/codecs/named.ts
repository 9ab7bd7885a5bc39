import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { CodecDefinition } from '../codec.js'
import { codecDefinition, loadedCodecs } from './loaded.js'
import { offerCodecs } from './options.js'

/** Loads those of the codecs that exist. */
export async function loadCodecsNamed(names: readonly string[]): Promise<void> {
  const files = new Set(readdirSync(fileURLToPath(new URL('.', import.meta.url))))
  const missing = names.filter(name => (files.has(`${name}.js`) || files.has(name)) && !codecDefinition(name))
  const found = (await Promise.all(missing.map(name => definitionOf(name, files.has(name))))).filter(
    definition => definition !== undefined,
  )
  // Keeps codecs that were loaded meanwhile.
  const more = found.filter(definition => !loadedCodecs().includes(definition))
  if (more.length > 0) offerCodecs([...loadedCodecs(), ...more])
}

async function definitionOf(name: string, isFolder: boolean): Promise<CodecDefinition | undefined> {
  const module = (await import(`./${isFolder ? `${name}/` : ''}${name}.js`)) as Record<
    string,
    Partial<CodecDefinition> | undefined
  >
  return Object.values(module).find(one => one?.name === name && one.examples) as CodecDefinition | undefined
}
