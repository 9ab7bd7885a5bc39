import type { OptionProblem } from '../../../core/component.js'
import { errorText } from '../../../core/errors.js'
import { existsSync } from '../../../lib/files/remote/guarded-fs.js'
import type { ScriptOptions } from './options.js'
import { ScriptProcess, scriptData } from './script-process.js'

/** Loads a script in a process. Returns what is wrong with it. */
export async function scriptProblems(options: ScriptOptions): Promise<readonly OptionProblem[]> {
  const path = [options.file === undefined ? 'code' : 'file']
  if (options.file !== undefined && !existsSync(options.file))
    return [{ path, message: `there is no file ${options.file}`, isWarning: true }]
  try {
    const none = () => undefined
    const nothing = { expected: none, done: none, at: none, wrote: none, died: none }
    const process = await ScriptProcess.open(scriptData('', options), options.max_memory, nothing)
    process.end()
    return []
  } catch (error) {
    return [{ path, message: errorText(error) }]
  }
}
