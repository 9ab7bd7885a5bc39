import { execFile } from 'node:child_process'
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { promisify } from 'node:util'

/** The newest lines of logs. */

const SAMPLED_LINES = 1000
const SAMPLED_BYTES = 256 * 1024
const MOST_ENTRY_BYTES = 64 * 1024 * 1024
const LIMIT_MS = 10_000

/** The last lines of a file. */
export function endOf(path: string): string {
  const fd = openSync(path, 'r')
  try {
    const { size } = fstatSync(fd)
    const start = Math.max(0, size - SAMPLED_BYTES)
    const bytes = Buffer.alloc(size - start)
    const lines = bytes.toString('utf8', 0, readSync(fd, bytes, 0, bytes.length, start)).split('\n')
    if (lines.at(-1) !== '') lines.push('')
    // The first line may be incomplete.
    return lines
      .slice(start === 0 ? 0 : 1)
      .slice(-SAMPLED_LINES - 1)
      .join('\n')
  } finally {
    closeSync(fd)
  }
}

/** The newest entries of the journal, as JSON lines; empty if this user can read none. `args`: where the journal is. */
export async function endOfJournal(args: readonly string[]): Promise<string> {
  const all = ['--no-pager', '-q', '-a', '-o', 'json', '-n', String(SAMPLED_LINES), ...args]
  const limits = { maxBuffer: MOST_ENTRY_BYTES, timeout: LIMIT_MS }
  return await promisify(execFile)('journalctl', all, limits).then(
    ({ stdout }) => stdout,
    () => '',
  )
}
