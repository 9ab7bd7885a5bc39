import { dirname, isAbsolute, join, resolve } from 'node:path'
import { existsSync, statSync } from '../../../lib/files/disk/disk.js'
import { loadErrorText, loadModule, loadPackage } from '../../../lib/load-module.js'
import { moduleDigest, moduleFiles } from '../../../lib/modules/module-files.js'
import { type Definitions, definitionsIn } from './definitions.js'
import { pluginKey } from './plugin-key.js'

/** A plugin that a configuration lists, or why it cannot be used. */
export interface Plugin extends Definitions {
  /** The files that a reload checks for changes. Empty if the plugin is a package. */
  readonly files: readonly string[]
  readonly problem?: string
  readonly warning?: string
}

/** The plugins loaded for a configuration, by `pluginKey`. */
export type Plugins = ReadonlyMap<string, Plugin>

/** Loads plugins that the configuration `file` lists. Does not throw. If loading fails, the result has a `problem`. */
export async function loadPlugins(
  listed: readonly { readonly file: string; readonly name: string }[],
): Promise<Plugins> {
  const plugins = new Map<string, Plugin>()
  for (const { file, name } of listed) {
    const key = pluginKey(file, name)
    if (!plugins.has(key)) plugins.set(key, await loadPlugin(name, dirname(resolve(file))))
  }
  return plugins
}

/** The definitions of these plugins. Throws if one of them cannot be loaded. */
export async function definitionsOf(listed: Parameters<typeof loadPlugins>[0]): Promise<Definitions> {
  const plugins = [...(await loadPlugins(listed))]
  for (const [key, { problem }] of plugins) if (problem !== undefined) throw new Error(`the plugin ${key} ${problem}`)
  return {
    components: plugins.flatMap(([, { components }]) => components),
    codecs: plugins.flatMap(([, { codecs }]) => codecs),
  }
}

async function loadPlugin(name: string, folder: string): Promise<Plugin> {
  const nothing = { components: [], codecs: [], files: [] }
  if (!isAbsolute(name) && !/^\.\.?\//.test(name)) {
    const place = packageOf(name, folder)
    if (place === undefined) {
      const file = existsSync(join(folder, name)) ? `; if you mean the file, write ./${name}` : ''
      const problem = `there is no package ${name} in node_modules of ${folder} or of a folder above it${file}`
      return { ...nothing, problem }
    }
    try {
      const version = `${join(place, 'package.json')}`
      return { ...definitionsIn(await loadPackage(name, folder), version), files: [], ...warningOf(version) }
    } catch (error) {
      return { ...nothing, problem: `cannot be loaded: ${loadErrorText(error, place)}` }
    }
  }
  const path = resolve(folder, name)
  if (!existsSync(path)) return { ...nothing, problem: `the file ${path} does not exist` }
  const files = moduleFiles(path)
  try {
    const version = `${path} ${moduleDigest(path)}`
    return { ...definitionsIn(await loadModule(path, { fresh: true }), version), files, ...warningOf(path) }
  } catch (error) {
    return { ...nothing, files, problem: `cannot be loaded: ${loadErrorText(error, path)}` }
  }
}

/** Finds the folder of a package in the same way as Node.js. */
function packageOf(name: string, folder: string): string | undefined {
  const own = name.split('/', name.startsWith('@') ? 2 : 1).join('/')
  for (let at = folder; ; at = dirname(at)) {
    const place = join(at, 'node_modules', own)
    if (existsSync(join(place, 'package.json'))) return place
    if (dirname(at) === at) return undefined
  }
}

/** Warns if every user of this machine can write or replace the file, and thus control the daemon. */
function warningOf(path: string): { warning?: string } {
  for (const place of [path, dirname(path)]) {
    const { mode } = statSync(place)
    const isShared = (mode & 0o1000) !== 0 && place !== path
    if ((mode & 0o002) !== 0 && !isShared)
      return {
        warning: `every user of this machine can write ${place}, and can thereby decide which code the daemon runs: chmod o-w ${place}`,
      }
  }
  return {}
}
