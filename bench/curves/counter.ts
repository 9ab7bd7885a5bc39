import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/** Counts what a process executes, with `perf`, where it is installed and allowed to: that is the same in each run. */

/** The command that writes to `path` how many instructions the command that follows it took. */
export function countingTo(path: string): readonly string[] {
  return ['perf', 'stat', '-x', ',', '-e', 'instructions', '-o', path, '--']
}

/** Whether instructions can be counted here. `path` is written to. */
export function canCount(path: string): boolean {
  const [file, ...args] = [...countingTo(path), process.execPath, '--version']
  return spawnSync(file!, args, { stdio: 'ignore' }).status === 0 && Number.isFinite(readCount(path))
}

/** The instructions of the program and of the kernel for it. */
export function readCount(path: string): number {
  const line = readFileSync(path, 'utf8')
    .split('\n')
    .find(text => text.includes('instructions'))
  return line === undefined ? Number.NaN : Number(line.split(',')[0])
}
