import { spawn } from 'node:child_process'
import { after } from './time.js'
import { formatDuration } from './units.js'

/**
 * Runs a program without a shell, and resolves with what it prints. No error has its arguments, or what it writes to
 * standard error: these may be secret. When its time is over, it is killed with all that it has started.
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
    // Where too many files are open, it has no output.
    child.stdout?.on('data', (part: Buffer) => {
      parts.push(part)
      bytes += part.length
      if (bytes > maxBytes) giveUp(`it printed more than ${maxBytes} bytes`)
    })
    child.on('error', ({ code, name }: NodeJS.ErrnoException) => end(`it cannot be run (${code ?? name})`))
    child.on('close', (code, signal) => end(code === 0 ? undefined : `it ended with ${signal ?? `exit code ${code}`}`))
  })
}
