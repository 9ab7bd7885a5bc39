import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/**
 * Limits the size of the files that a process writes: a write beyond it is cut short there, and the next one fails (EFBIG).
 * A full disk does the same, but not at a byte of the test's choice. Undefined: no limit.
 */
export function limitFileSize(prlimit: string, bytes: number | undefined, pid: number = process.pid): void {
  execFileSync(prlimit, ['--pid', String(pid), `--fsize=${bytes ?? 'unlimited'}:`])
}

/** Limits how many files a process may have open. The returned function restores the limit. */
export function limitOpenFiles(prlimit: string, files: number): () => void {
  const limit = (to: string | number) => execFileSync(prlimit, ['--pid', String(process.pid), `--nofile=${to}:`])
  const before = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))![1]!
  limit(files)
  return () => limit(before)
}
