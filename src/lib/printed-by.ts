import { execFile } from 'node:child_process'
import { formatDuration } from './units.js'

/**
 * Runs a program without a shell, and resolves with what it prints. No error has its arguments, or what it writes to
 * standard error: these may be secret.
 */
export function printedBy(
  [program = '', ...args]: readonly string[],
  { maxBytes, timeoutMs }: { readonly maxBytes: number; readonly timeoutMs: number },
): Promise<Buffer> {
  const bounds = { maxBuffer: maxBytes, timeout: timeoutMs, killSignal: 'SIGKILL', encoding: 'buffer' } as const
  return new Promise((resolve, reject) => {
    execFile(program, args, bounds, (error, printed) => {
      if (!error) return resolve(printed)
      const { code, signal, killed } = error as { code?: unknown; signal?: unknown; killed?: unknown }
      const isTooLong = code === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER'
      const why = isTooLong
        ? `it printed more than ${maxBytes} bytes`
        : killed
          ? `it did not end within ${formatDuration(timeoutMs)}`
          : typeof code === 'string'
            ? `it cannot be run (${code})`
            : `it ended with ${signal ?? `exit code ${code}`}`
      reject(new Error(why))
    })
  })
}
