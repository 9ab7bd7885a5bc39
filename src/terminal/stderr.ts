import { fstatSync } from 'node:fs'

/** The streams and levels of what the program says of itself, on stderr: as lines, or with their priorities in the journal. */

export const STDERR = 2
/** Of a text that says why something could not be done. */
const ERROR = 3

/** The priority in the journal of a level of pino. */
export function priorityOf(level: number): number {
  if (level >= 60) return 2
  if (level >= 50) return ERROR
  if (level >= 40) return 4
  return level >= 30 ? 6 : 7
}

/** Whether stderr leads to the journal, which takes `<N>` at the beginning of a line for its priority. */
export function leadsToJournal(env: NodeJS.ProcessEnv): boolean {
  if (!env.JOURNAL_STREAM) return false
  try {
    const { dev, ino } = fstatSync(STDERR, { bigint: true })
    return env.JOURNAL_STREAM === `${dev}:${ino}`
  } catch {
    return false
  }
}

/** Stderr for texts: in the journal, each line with its priority. */
export function textStderr(stderr: NodeJS.WriteStream, env: NodeJS.ProcessEnv): NodeJS.WriteStream {
  if (!leadsToJournal(env)) return stderr
  const write = (text: string, ...rest: []) => stderr.write(String(text).replace(/^(?=.)/gm, `<${ERROR}>`), ...rest)
  return Object.create(stderr, { write: { value: write } })
}
