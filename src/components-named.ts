import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { AnyDefinition, Kind } from './core/component.js'

/**
 * Loads only the components whose types are written in the texts of a configuration, since loading all of them takes
 * longer than most else at the start of a daemon. A type that is written in another way is not found: a configuration
 * that turns out wrong with these components has to be read with all of them (components.ts).
 */

const FOLDERS: Readonly<Record<string, Kind>> = {
  sources: 'source',
  processors: 'processor',
  destinations: 'destination',
}
const TYPE = /\btype["']?\s*:\s*["']?(\w+)/g

export async function componentsNamed(texts: readonly string[]): Promise<AnyDefinition[]> {
  const types = new Set(texts.flatMap(text => [...text.matchAll(TYPE)].map(([, type]) => type!)))
  const found = Object.entries(FOLDERS).map(async ([folder, kind]) => {
    const files = new Set(readdirSync(fileURLToPath(new URL(folder, import.meta.url))))
    const named = [...types].filter(type => files.has(`${fileOf(type)}.js`))
    return Promise.all(named.map(type => definitionIn(folder, kind, type)))
  })
  return (await Promise.all(found)).flat().filter(definition => definition !== undefined)
}

const fileOf = (type: string) => type.replaceAll('_', '-')

async function definitionIn(folder: string, kind: Kind, type: string): Promise<AnyDefinition | undefined> {
  const module = (await import(`./${folder}/${fileOf(type)}.js`)) as Record<string, Partial<AnyDefinition> | undefined>
  return Object.values(module).find(one => one?.kind === kind && one.type === type) as AnyDefinition | undefined
}
