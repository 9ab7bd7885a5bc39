import type { OptionProblem } from '../../core/component.js'
import { errorText } from '../../core/errors.js'
import { existsSync } from '../../lib/files/remote/guarded-fs.js'
import type { ScriptOptions } from './options.js'
import { ScriptThread, scriptData } from './script-thread.js'

/** Loads a script in a thread. Returns what is wrong with it. */
export async function scriptProblems(options: ScriptOptions): Promise<readonly OptionProblem[]> {
  const path = [options.file === undefined ? 'code' : 'file']
  if (options.file !== undefined && !existsSync(options.file))
    return [{ path, message: `there is no file ${options.file}`, isWarning: true }]
  try {
    const nothing = { done: () => {}, wrote: () => {}, died: () => {} }
    const thread = await ScriptThread.open(scriptData('', options), options.max_memory, nothing)
    thread.end()
    return []
  } catch (error) {
    return [{ path, message: errorText(error) }]
  }
}
