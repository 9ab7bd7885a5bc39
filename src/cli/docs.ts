import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { components } from '../components/list.js'
import { useCodecs } from '../core/codecs/options.js'
import type { AnyDefinition } from '../core/component.js'
import { loadDaemonConfig } from '../daemon/managed/local-part.js'
import type { Command, Io } from '../daemon/process/command-line.js'
import { EXIT } from '../daemon/process/dispatch.js'
import { readWithPlugins } from '../engine/config/plugins/read-plugins.js'
import { DESTINATIONS, pageOf, SOURCES } from '../engine/config/reference/component-pages.js'
import { jsonSchema } from '../engine/config/reference/json-schema.js'
import { referenceText } from '../engine/config/reference/reference.js'
import { statusSchema, withMembers } from '../engine/config/reference/status-members.js'
import { makeFolder } from '../lib/files/make-folder.js'
import { systemClock } from '../lib/time.js'
import { packageFolder, packageVersion } from '../lib/version.js'
import { manPage } from './man.js'

/** The output of `sluice docs config` by file name. */
export function generatedFiles(known: readonly AnyDefinition[] = components): Readonly<Record<string, string>> {
  return {
    'schema.json': `${JSON.stringify(jsonSchema(known), null, 2)}\n`,
    'reference.md': referenceText(known),
  }
}

/** By file name: the pages of the package that are made from its definitions. */
export const generatedPages = (): Readonly<Record<string, string>> => ({
  'destinations.md': pageOf(DESTINATIONS, components),
  'sources.md': pageOf(SOURCES, components),
  'status-api.md': withMembers(readFileSync(join(packageFolder, 'docs', 'status-api.md'), 'utf8')),
  'status.schema.json': statusSchema(),
})

export interface DocsOptions {
  readonly config?: string | undefined
  readonly out?: string | undefined
}

/** Writes the reference of the configuration and its JSON Schema. Throws ConfigError if a plugin cannot be loaded. */
export async function docs(io: Pick<Io, 'stdout' | 'env'>, { config, out }: DocsOptions = {}): Promise<number> {
  const known = config === undefined ? components : await knownWith(config, io.env)
  const write = async (folder: string, files: Readonly<Record<string, string>>) => {
    await makeFolder(folder)
    for (const [name, text] of Object.entries(files)) {
      const file = join(folder, name)
      writeFileSync(file, text)
      io.stdout.write(`${file}\n`)
    }
  }
  await write(out ?? (config === undefined ? join(packageFolder, 'config') : '.'), generatedFiles(known))
  if (out === undefined && config === undefined) await write(join(packageFolder, 'docs'), generatedPages())
  return EXIT.done
}

/** All components that a configuration can use. Registers the codecs of its plugins. */
async function knownWith(config: string, env: NodeJS.ProcessEnv): Promise<readonly AnyDefinition[]> {
  // Loads the whole configuration, so that errors about plugins are clear.
  await loadDaemonConfig(config, env)
  const plugins = [...(await readWithPlugins(config, env)).plugins.values()]
  useCodecs(plugins.flatMap(({ codecs }) => codecs))
  return [...components, ...plugins.flatMap(plugin => plugin.components)]
}

/** Writes the manual page. If SOURCE_DATE_EPOCH is set, the page shows this date, so that builds are reproducible. */
export function man(commands: readonly Command[], io: Pick<Io, 'stdout' | 'env'>): number {
  const seconds = Number(io.env.SOURCE_DATE_EPOCH || Number.NaN)
  const time = Number.isSafeInteger(seconds) ? seconds * 1000 : systemClock.wall()
  io.stdout.write(manPage(commands, packageVersion(), new Date(time).toISOString().slice(0, 10)))
  return EXIT.done
}
