import { fstatSync } from 'node:fs'

/** How the program writes about itself to stderr: as plain lines, or with priorities if stderr is the journal. */

export const STDERR = 2
/** The priority of error texts. */
const ERROR = 3

/** The journal priority of a level of pino. */
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

/** Stderr for plain text; if it is the journal, each line gets its priority. */
export function textStderr(stderr: NodeJS.WriteStream, env: NodeJS.ProcessEnv): NodeJS.WriteStream {
  if (!leadsToJournal(env)) return stderr
  const write = (text: string, ...rest: []) => stderr.write(String(text).replace(/^(?=.)/gm, `<${ERROR}>`), ...rest)
  return Object.create(stderr, { write: { value: write } })
}
