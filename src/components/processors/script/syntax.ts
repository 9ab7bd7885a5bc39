import { Script, type ScriptOptions } from 'node:vm'

/** The file name of the option `code` in stacks. */
export const CODE = 'code'

/** Compiles an expression, or statements of which the last is one, without running it. Throws SyntaxError. */
export function compiled(code: string, more: ScriptOptions = {}): Script {
  const options = { ...more, filename: CODE }
  try {
    return new Script(`(${code}\n)`, options)
  } catch {
    return new Script(code, options)
  }
}

/** What is wrong with the syntax of code, and in which of its lines; undefined: nothing. */
export function syntaxProblem(code: string): string | undefined {
  try {
    compiled(code)
    return undefined
  } catch (error) {
    const { stack = '', message } = error as Error
    const line = /^code:(\d+)\n/.exec(stack)?.[1]
    return line === undefined ? message : `line ${line} of the code: ${message}`
  }
}
