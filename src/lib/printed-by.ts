import { spawn } from 'node:child_process'
import { after } from './time.js'
import { formatDuration } from './units.js'

interface Limits {
  readonly maxBytes: number
  readonly timeoutMs: number
  readonly env?: NodeJS.ProcessEnv
}

const MIB = 1024 * 1024

/** What `printedBy` resolves with, as text. Empty if the program fails. */
export const textPrintedBy = (command: readonly string[], limits: Partial<Limits> = {}): Promise<string> =>
  printedBy(command, { maxBytes: MIB, timeoutMs: 10_000, ...limits }).then(String, () => '')

/**
 * Runs a program without a shell. Resolves with its standard output. Error messages contain neither the arguments nor
 * the standard error of the program, because both may be secret. After the time limit, kills the program and all
 * processes that it started.
 */
export function printedBy(
  [program = '', ...args]: readonly string[],
  { maxBytes, timeoutMs, env }: Limits,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    // A detached process leads its own process group, which `kill` ends.
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'ignore'], detached: true, ...(env && { env }) })
    const parts: Buffer[] = []
    let bytes = 0
    const kill = () => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
      } catch {
        // The whole group has ended.
      }
    }
    const end = (why?: string) => {
      cancel()
      process.off('exit', kill)
      child.stdout?.destroy()
      if (why === undefined) resolve(Buffer.concat(parts))
      else reject(new Error(why))
    }
    const giveUp = (why: string) => {
      kill()
      end(why)
    }
    const cancel = after(timeoutMs, () => giveUp(`it did not end within ${formatDuration(timeoutMs)}`))
    process.once('exit', kill)
    // If too many files are open, the child has no output stream.
    child.stdout?.on('data', (part: Buffer) => {
      parts.push(part)
      bytes += part.length
      if (bytes > maxBytes) giveUp(`it printed more than ${maxBytes} bytes`)
    })
    child.on('error', ({ code, name }: NodeJS.ErrnoException) => end(`it cannot be run (${code ?? name})`))
    child.on('close', (code, signal) => end(code === 0 ? undefined : `it ended with ${signal ?? `exit code ${code}`}`))
  })
}
