import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { bound } from './bound.js'
import { sluiceMain } from './checkout.js'
import { until } from './until.js'

export interface Running {
  readonly child: ChildProcess
  readonly pid: number
  /** What it wrote so far. */
  stdout: string
  stderr: string
  /** Resolves with its exit code, or the name of the signal it died of. */
  readonly exit: Promise<number | string>
  /** As `until` of until.ts; rejects when the program ends before. */
  until<T>(test: () => T | undefined | false): Promise<T>
}

/** What the shell or npm says to whoever runs the tests, and not to the programs that they start. */
const NOT_OF_TESTS = { SLUICE_URL: undefined, SLUICE_ACCESS_KEY: undefined, npm_command: undefined }

/** Starts the real program, or that of another build (`main`). It is killed when the test process ends. */
export function sluice(
  args: readonly string[],
  options: { cwd?: string; env?: NodeJS.ProcessEnv; main?: string } = {},
): Running {
  const child = spawn(...bound(process.execPath, [options.main ?? sluiceMain, ...args]), {
    ...(options.cwd ? { cwd: options.cwd } : {}),
    env: { ...process.env, ...NOT_OF_TESTS, ...options.env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  let ended = false
  const running: Running = {
    child,
    pid: child.pid!,
    stdout: '',
    stderr: '',
    exit: once(child, 'close').then(([code, signal]) => {
      ended = true
      process.removeListener('exit', kill)
      return (code ?? signal) as number | string
    }),
    async until(test) {
      const look = () => {
        const gone = ended
        const result = test()
        if (gone && (result === undefined || result === false)) throw new Error(`the program ended:\n${running.stderr}`)
        return result
      }
      return (await until(String(test), look, { show: () => `\n${running.stderr}` })) as never
    },
  }
  child.stdout.setEncoding('utf8').on('data', text => (running.stdout += text))
  child.stderr.setEncoding('utf8').on('data', text => (running.stderr += text))
  return running
}
