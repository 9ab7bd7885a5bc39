import { readdirSync, readFileSync } from 'node:fs'
import { until } from './until.js'

/** Does something while a process stands still: however long that takes, the process sees all of it at once. */
export async function whileStopped(pid: number, work: () => void): Promise<void> {
  process.kill(pid, 'SIGSTOP')
  // Each of its threads stops by itself.
  const isStopped = (thread: string) => /\) T /.test(readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8'))
  await until(`process ${pid} to stop`, () => readdirSync(`/proc/${pid}/task`).every(isStopped))
  work()
  process.kill(pid, 'SIGCONT')
}
