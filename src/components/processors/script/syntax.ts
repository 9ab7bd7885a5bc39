import { Script, type ScriptOptions } from 'node:vm'
import { markedPlace } from '../../../lib/modules/plugin-place.js'

/** The file name of the option `code` in stack traces. */
export const CODE = 'code'

/** Compiles an expression, or statements that end with an expression, but does not run them. Throws SyntaxError. */
export function compiledScript(code: string, more: ScriptOptions = {}): Script {
  const options = { ...more, filename: CODE }
  try {
    // With this offset, columns in stack traces count from the start of the option.
    return new Script(`(${code}\n)`, { ...options, columnOffset: -1 })
  } catch {
    return new Script(code, options)
  }
}

/** The syntax problem of code, with its line. Undefined if the code is valid. */
export function syntaxProblem(code: string): string | undefined {
  try {
    compiledScript(code)
    return undefined
  } catch (error) {
    const { stack = '', message } = error as Error
    const place = markedPlace(stack, CODE)
    return place === undefined ? message : `${placeInCode(place.line, place.column)}: ${message}`
  }
}

export const placeInCode = (line: number | string, column: number | string) =>
  `line ${line}, column ${column} of the code`
