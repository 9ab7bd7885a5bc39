import { constants } from 'node:vm'
import { loadModule } from '../../../lib/load-module.js'
import type { ScriptFunction } from './calls.js'
import type { ScriptData } from './messages.js'
import { compiled } from './syntax.js'

/** `import()` finds modules of Node.js and absolute paths, since the code has no file. */
const importModuleDynamically = constants.USE_MAIN_CONTEXT_DEFAULT_LOADER
const run = (code: string): unknown => compiled(code, { importModuleDynamically }).runInThisContext()

/** Loads the function of a script in this process. Throws if there is none. */
export async function loadScript({ code, file }: Pick<ScriptData, 'code' | 'file'>): Promise<ScriptFunction> {
  const found = file === undefined ? run(code!) : (await loadModule(file)).default
  if (typeof found === 'function') return found as ScriptFunction
  throw new Error(
    file === undefined
      ? 'it must be a function, as in event => ({ ...event, n: event.n + 1 })'
      : `the default export of ${file} must be a function, as in export default event => event`,
  )
}
