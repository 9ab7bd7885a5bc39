import { fstatSync, writeSync } from 'node:fs'
import { errorCode } from '../../core/errors.js'

/** Writes the program's own messages to stderr, as plain lines or, if stderr is the journal, with priorities. */

export const STDERR = 2
const ERROR = 3

/** Converts a level of pino to a priority of the journal. */
export function priorityOf(level: number): number {
  if (level >= 60) return 2
  if (level >= 50) return ERROR
  if (level >= 40) return 4
  return level >= 30 ? 6 : 7
}

/** Whether stderr is the journal, which reads `<N>` at the beginning of a line as its priority. */
export function leadsToJournal(env: NodeJS.ProcessEnv): boolean {
  if (!env.JOURNAL_STREAM) return false
  try {
    const { dev, ino } = fstatSync(STDERR, { bigint: true })
    return env.JOURNAL_STREAM === `${dev}:${ino}`
  } catch {
    return false
  }
}

/** Stderr for plain text. If stderr is the journal, each line gets its priority. */
export function textStderr(stderr: NodeJS.WriteStream, env: NodeJS.ProcessEnv): NodeJS.WriteStream {
  if (!leadsToJournal(env)) return stderr
  const write = (text: string, ...rest: []) => stderr.write(String(text).replace(/^(?=.)/gm, `<${ERROR}>`), ...rest)
  return Object.create(stderr, { write: { value: write } })
}

/** How long to wait for a slow reader of stderr. */
const BUSY_MS = 100
let lost = 0

/** Number of log lines that could not be written since the process started. */
export const lostLines = (): number => lost

/**
 * Writes lines to stderr at once, since the last lines before exit matter most. If a line cannot be written, as on a
 * full disk, the line is lost and counted. When writing works again, calls `again` with the number of lost lines.
 */
export function lineWriter(again: (lines: number) => void): (line: string) => void {
  let missing = 0
  let isTorn = false
  return line => {
    const bytes = Buffer.from(isTorn ? `\n${line}` : line)
    let done = 0
    while (done < bytes.length) {
      try {
        done += writeSync(STDERR, bytes, done)
      } catch (error) {
        if (errorCode(error) === 'EAGAIN') {
          Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, BUSY_MS)
          continue
        }
        lost++
        missing++
        isTorn ||= done > 0
        return
      }
    }
    isTorn = false
    const lines = missing
    missing = 0
    if (lines > 0) again(lines)
  }
}
