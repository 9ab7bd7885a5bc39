import { execFileSync } from 'node:child_process'

/**
 * Limits the size of the files that a process writes: a write beyond it is cut short there, and the next one fails (EFBIG).
 * A full disk does the same, but not at a byte of the test's choice. Undefined: no limit.
 */
export function limitFileSize(prlimit: string, bytes: number | undefined, pid: number = process.pid): void {
  execFileSync(prlimit, ['--pid', String(pid), `--fsize=${bytes ?? 'unlimited'}:`])
}
