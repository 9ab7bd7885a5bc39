import { readFileSync } from 'node:fs'
import { programPath } from './needs.js'

const setpriv = process.platform === 'linux' ? programPath('setpriv') : undefined

/**
 * The command for `spawn` that starts a program which is killed when this process ends, also when that is killed: a test
 * that times out would leave its daemon behind. Without setpriv it is the program itself, for who starts it to kill.
 */
export function bound(program: string, args: readonly string[]): [string, string[]] {
  return setpriv ? [setpriv, ['--pdeathsig', 'KILL', program, ...args]] : [program, [...args]]
}

/** One that has ended stays in the list of processes where nobody waits for it. */
export function isRunning(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'latin1'))
  } catch {
    return false
  }
}
