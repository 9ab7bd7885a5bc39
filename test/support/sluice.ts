import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { bound } from './bound.js'
import { sluiceMain } from './checkout.js'
import { PATIENCE_MS } from './until.js'

export interface Running {
  readonly child: ChildProcess
  readonly pid: number
  /** What it wrote so far. */
  stdout: string
  stderr: string
  /** Resolves with its exit code, or the name of the signal it died of. */
  readonly exit: Promise<number | string>
  /** Resolves when `test` of this is not undefined or false; rejects when the program ends before, or after `ms`. */
  until<T>(test: () => T | undefined | false, ms?: number): Promise<T>
}

/** Starts the real program, or that of another build (`main`). It is killed when the test process ends. */
export function sluice(
  args: readonly string[],
  options: { cwd?: string; env?: NodeJS.ProcessEnv; main?: string } = {},
): Running {
  const child = spawn(...bound(process.execPath, [options.main ?? sluiceMain, ...args]), {
    ...(options.cwd ? { cwd: options.cwd } : {}),
    env: { ...process.env, SLUICE_URL: undefined, SLUICE_ACCESS_KEY: undefined, ...options.env },
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
    async until(test, ms = PATIENCE_MS) {
      for (const end = performance.now() + ms; performance.now() < end; ) {
        const gone = ended
        const result = test()
        if (result !== undefined && result !== false) return result
        if (gone) break
        await new Promise(resolve => setTimeout(resolve, 20))
      }
      throw new Error(`${ended ? 'the program ended' : `nothing within ${ms} ms`}; stderr:\n${running.stderr}`)
    },
  }
  child.stdout.setEncoding('utf8').on('data', text => (running.stdout += text))
  child.stderr.setEncoding('utf8').on('data', text => (running.stderr += text))
  return running
}
