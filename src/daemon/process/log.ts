import { type DestinationStream, type Logger, pino } from 'pino'
import { formatProblem, type Problem } from '../../core/errors.js'
import type { LogFormat } from '../../engine/config/load.js'
import type { Metrics } from '../../engine/run/measure/metrics.js'
import { printableJson } from '../../lib/printable.js'
import { type Io, UsageError } from './command-line.js'
import { logText } from './log-text.js'
import { leadsToJournal, lineWriter, lostLines, priorityOf, STDERR } from './stderr.js'

type LogIo = Pick<Io, 'stderr' | 'env'>

export interface LogOptions {
  /** Undefined: text if stderr is a terminal, otherwise JSON. */
  readonly format?: LogFormat | undefined
  /** The level, unless SLUICE_LOG_LEVEL sets it. */
  readonly level?: string
}

/** The log of the program. All child loggers write in the format that was set last. */
export interface ProgramLog {
  readonly log: Logger
  setFormat(format: LogFormat | undefined): void
}

/** Opens the log on stderr: JSON lines or text, with priorities if stderr is the journal. */
export function openLog(io: LogIo, { format, level = 'info' }: LogOptions = {}): ProgramLog {
  let lineOf = lineFormat(io, format)
  const write = writerOf(io, lines => log.warn({ lines }, 'the log can be written again; lines were lost meanwhile'))
  const stream = {
    [Symbol.for('pino.metadata')]: true,
    lastLevel: 0,
    write(line: string) {
      write(lineOf(line), this.lastLevel)
    },
  } as DestinationStream & { lastLevel: number }
  const log = pino(
    {
      level: levelFrom(io.env) ?? level,
      base: { pid: process.pid },
      redact: { paths: ['key', '*.key', 'auth', '*.auth', 'authorization', '*.authorization'], censor },
    },
    stream,
  )
  return {
    log,
    setFormat(format) {
      lineOf = lineFormat(io, format)
    },
  }
}

const LEVELS = [...Object.keys(pino.levels.values), 'silent']

/** The level set in the environment; undefined if there is none. Throws UsageError. */
function levelFrom({ SLUICE_LOG_LEVEL: given }: LogIo['env']): string | undefined {
  if (!given) return undefined
  const level = given.toLowerCase()
  if (!LEVELS.includes(level)) throw new UsageError(`SLUICE_LOG_LEVEL must be one of ${LEVELS.join(', ')}`)
  return level
}

/** The log of a command that has no configuration, or whose log settings never change. */
export const createLog = (io: LogIo, options?: LogOptions): Logger => openLog(io, options).log

function lineFormat({ stderr, env }: LogIo, format: LogFormat | undefined): (json: string) => string {
  const isTerminal = Boolean(stderr.isTTY)
  if ((format ?? (isTerminal ? 'text' : 'json')) === 'json') return printableJson
  const color = isTerminal && env.TERM !== 'dumb' && !env.NO_COLOR
  return json => logText(json, color)
}

function writerOf({ stderr, env }: LogIo, again: (lines: number) => void): (line: string, level: number) => void {
  if (stderr !== process.stderr && (stderr as { fd?: number }).fd !== STDERR) return line => void stderr.write(line)
  const write = lineWriter(again)
  if (!leadsToJournal(env)) return write
  return (line, level) => write(`<${priorityOf(level)}>${line}`)
}

export function logMetrics(metrics: Metrics): void {
  const help = 'Lines of the log that could not be written to standard error, such as on a full disk.'
  metrics.daemonTotal('sluice_log_lines_lost_total', help, lostLines)
}

/** Counts by component are not redacted, because a number is not a secret, even with a name like `key` or `auth`. */
const censor = (value: unknown): unknown => (isCounts(value) ? value : '[Redacted]')

function isCounts(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return typeof value === 'number'
  return Object.values(value).every(isCounts)
}

/** Creates the log of a child process: JSON without a time. The parent process writes the lines. */
export const messageLog = (level: string, write: (line: string) => void): Logger =>
  pino({ level, base: null, timestamp: false }, { write })

export function logWarnings(log: Logger, warnings: readonly Problem[]): void {
  for (const warning of warnings) log.warn({ place: formatProblem(warning) }, 'configuration warning')
}

let logWarning: ((warning: Error) => void) | undefined

/** From now on, logs the warnings of Node.js and of plugins. Otherwise Node.js would write them as text. */
export function logNodeWarnings(log: Logger): void {
  for (const listener of process.listeners('warning'))
    if (listener === logWarning || listener.name === 'onWarning') process.off('warning', listener)
  logWarning = ({ name, message }) => log.warn({ name, error: message }, 'warning of Node.js')
  process.on('warning', logWarning)
}
