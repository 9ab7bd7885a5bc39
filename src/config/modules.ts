import { moduleFiles } from '../lib/modules/module-files.js'
import type { Draft } from './component-config.js'
import type { Config } from './load.js'
import { SECTIONS } from './schema.js'
import { locate, placeOf } from './yaml/node.js'
import type { Problems } from './yaml/problems.js'

/** The files of the modules that components name, and of those that these import by relative paths. */
export function filesOfModules({ processors }: Pick<Config, 'processors'>): readonly string[] {
  return processors.flatMap(({ definition: { module }, options }) => {
    const path = module && (options as Readonly<Record<string, unknown>>)[module]
    return typeof path === 'string' ? moduleFiles(path) : []
  })
}

/** Loads the modules that components name, each in a thread of its own, and adds what is wrong with them. */
export async function checkModules(
  drafts: readonly Draft[],
  { problems, warnings }: { readonly problems: Problems; readonly warnings: Problems },
): Promise<void> {
  for (const { id, kind, entry, config } of drafts) {
    const found = (await config?.definition.checkModule?.(config.options)) ?? []
    for (const { path, message, isWarning } of found) {
      const located = locate(entry.value, path, entry.key)
      const to = isWarning ? warnings : problems
      to.add(placeOf(located), [SECTIONS[kind], id, ...path], message)
    }
  }
}
