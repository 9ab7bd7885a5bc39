import { type DestinationStream, type Logger, pino } from 'pino'
import { formatProblem, type Problem } from '../core/errors.js'
import type { Io } from './command-line.js'
import { leadsToJournal, priorityOf, STDERR } from './stderr.js'

/** The log of the program: JSON lines on stderr, in the journal with their priorities. */
export function createLog(io: Pick<Io, 'stderr' | 'env'>): Logger {
  const options = {
    level: io.env.SLUICE_LOG_LEVEL ?? 'info',
    base: { pid: process.pid },
    redact: { paths: ['key', '*.key', 'auth', '*.auth', 'authorization', '*.authorization'], censor },
  }
  if (io.stderr !== process.stderr && (io.stderr as { fd?: number }).fd !== STDERR)
    return pino(options, io.stderr as DestinationStream)
  // Synchronous: the last lines before an exit are the ones that matter.
  const to = pino.destination({ dest: STDERR, sync: true })
  if (!leadsToJournal(io.env)) return pino(options, to)
  return pino(options, {
    [Symbol.for('pino.metadata')]: true,
    lastLevel: 0,
    write(line: string) {
      to.write(`<${priorityOf(this.lastLevel)}>${line}`)
    },
  } as DestinationStream & { lastLevel: number })
}

/** Counts by component are shown: a component may be called `key` or `auth`, and a number is no secret. */
const censor = (value: unknown): unknown => (isCounts(value) ? value : '[Redacted]')

function isCounts(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return typeof value === 'number'
  return Object.values(value).every(isCounts)
}

/** A log that says nothing. */
export const silentLog = (): Logger => pino({ enabled: false })

/** What is odd about a configuration, though it can be used. */
export function tellWarnings(log: Logger, warnings: readonly Problem[]): void {
  for (const warning of warnings) log.warn({ place: formatProblem(warning) }, 'configuration warning')
}
