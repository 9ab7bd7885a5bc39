import { spawn } from 'node:child_process'
import { after } from './time.js'
import { formatDuration } from './units.js'

/**
 * Runs a program without a shell, and resolves with its standard output. Errors do not contain its arguments or its
 * standard error, which may be secret. After the time limit, it is killed with all processes that it has started.
 */
export function printedBy(
  [program = '', ...args]: readonly string[],
  { maxBytes, timeoutMs }: { readonly maxBytes: number; readonly timeoutMs: number },
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    // Detached, it leads a process group of its own.
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'ignore'], detached: true })
    const parts: Buffer[] = []
    let bytes = 0
    const kill = () => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
      } catch {
        // All of the group has ended.
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
    // If too many files are open, it does not have an output.
    child.stdout?.on('data', (part: Buffer) => {
      parts.push(part)
      bytes += part.length
      if (bytes > maxBytes) giveUp(`it printed more than ${maxBytes} bytes`)
    })
    child.on('error', ({ code, name }: NodeJS.ErrnoException) => end(`it cannot be run (${code ?? name})`))
    child.on('close', (code, signal) => end(code === 0 ? undefined : `it ended with ${signal ?? `exit code ${code}`}`))
  })
}
