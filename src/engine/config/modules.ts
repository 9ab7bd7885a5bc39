import { moduleFiles } from '../../lib/modules/module-files.js'
import type { Config } from './load.js'

/** The files of the modules that components name, and of those that these import by relative paths. */
export function filesOfModules({ processors }: Pick<Config, 'processors'>): readonly string[] {
  return processors.flatMap(({ definition: { module }, options }) => {
    const path = module && (options as Readonly<Record<string, unknown>>)[module]
    return typeof path === 'string' ? moduleFiles(path) : []
  })
}
