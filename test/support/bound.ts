import { programPath } from './needs.js'

const setpriv = process.platform === 'linux' ? programPath('setpriv') : undefined

/**
 * The command for `spawn` that starts a program which is killed when this process ends, also when that is killed: a test
 * that times out would leave its daemon behind. Without setpriv it is the program itself, for who starts it to kill.
 */
export function bound(program: string, args: readonly string[]): [string, string[]] {
  return setpriv ? [setpriv, ['--pdeathsig', 'KILL', program, ...args]] : [program, [...args]]
}
