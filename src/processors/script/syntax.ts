import { constants, Script } from 'node:vm'

/** The file name of the option `code` in stacks. */
export const CODE = 'code'

/** Compiles an expression, or statements of which the last is one, without running it. Throws SyntaxError. */
export function compiled(code: string): Script {
  // `import()` finds packages of Node.js and absolute paths, since the code has no file.
  const options = { filename: CODE, importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER }
  try {
    return new Script(`(${code}\n)`, { ...options, columnOffset: -1 })
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
