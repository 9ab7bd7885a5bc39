import { deadline, systemClock } from '../../lib/time.js'
import { counted, formatDuration, short } from '../../lib/units.js'
import type { Io } from '../process/command-line.js'
import { beginning, displayWidth, ending, padEnd, padStart } from '../process/wrap.js'
import { Series } from '../status/series.js'
import type { Status } from '../status/status.js'
import { askJson } from './daemon-socket.js'

export interface DaemonView extends Omit<Status, 'at' | 'series'> {
  /** Seconds of this process's monotonic clock. */
  readonly at: number
  /** The daemon's time, in milliseconds since the epoch. */
  readonly wall: number
  readonly series: Series
}

/** Call this as soon as the daemon has answered. */
export function viewOf({ series, at: time, ...status }: Status): DaemonView {
  return { ...status, at: systemClock.now() / 1000, wall: Date.parse(time), series: new Series(series) }
}

/** Longer than a busy daemon needs. The kernel still accepts connections to a daemon that hangs. */
const ANSWER_MS = 10_000

/** Gets the document of /status from the daemon. */
export async function statusAt(socket: string, ms = ANSWER_MS): Promise<Status> {
  const limit = deadline(ms)
  try {
    const status = await askJson<Status>(socket, '/status', limit.signal)
    if (status) return status
    throw new Error(`the daemon at ${socket} runs another release than this command: restart the daemon`)
  } finally {
    limit.clear()
  }
}

export interface TerminalStyle {
  readonly width: number
  /** Undefined if stdout is not a terminal, or the terminal cannot overwrite text. */
  readonly height: number | undefined
  readonly color: boolean
}

export function terminalOf({ stdout, env }: Pick<Io, 'stdout' | 'env'>): TerminalStyle {
  const isTerminal = Boolean(stdout.isTTY) && env.TERM !== 'dumb'
  return {
    width: stdout.columns || 80,
    height: isTerminal ? stdout.rows || 24 : undefined,
    color: isTerminal && !env.NO_COLOR,
  }
}

/**
 * Formats columns so that each line is at most `width` wide. The first column is aligned left, and shortened if needed.
 * The other columns are aligned right.
 */
export function table(rows: readonly (readonly string[])[], width: number): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map(row => displayWidth(row[column]!))))
  const rest = widths.slice(1).reduce((sum, own) => sum + own + 2, 0)
  const first = Math.max(8, Math.min(widths[0] ?? 0, width - rest))
  return rows.map(row => {
    const cells = row.map((cell, column) =>
      column > 0 ? padStart(cell, widths[column]! + 2) : padEnd(cutWithin(cell, first), first),
    )
    return beginning(cells.join(''), width).trimEnd()
  })
}

/** Shortens a name in its middle, because names usually differ at the end. */
function cutWithin(text: string, columns: number): string {
  if (displayWidth(text) <= columns) return text
  const end = Math.floor((columns - 1) / 2)
  return `${beginning(text, columns - 1 - end)}…${ending(text, end)}`
}

/** Like `table`. If the width is sufficient, adds a last column with the state of each component. */
export function tableWithStates(rows: readonly (readonly string[])[], view: DaemonView, width: number): string[] {
  const states = ['', ...view.components.map(({ id }) => stateWords(view, id))]
  const longest = Math.max(...states.map(displayWidth))
  const lines = table(rows, width - (longest === 0 ? 0 : longest + 2))
  return lines.map((line, i) => beginning(`${line}  ${states[i] ?? ''}`, width).trimEnd())
}

/** The growth of a counter per second between two moments. */
export function rateOf(before: DaemonView, now: DaemonView, name: string, labels: Record<string, string>): number {
  const seconds = Math.max(now.at - before.at, 0.001)
  return Math.max(0, now.series.sum(name, labels) - before.series.sum(name, labels)) / seconds
}

/** The state of a component in a few words; empty if components of its kind do not have a state. */
export function stateWords({ series, destinations }: Pick<DaemonView, 'series' | 'destinations'>, id: string): string {
  const labels = { component_id: id }
  const destination = destinations.find(one => one.id === id)
  const buffered = series.sum('sluice_buffer_events', labels) + series.sum('sluice_spool_events', labels)
  if (destination) return buffered > 0 ? `${destination.state}, ${short(buffered)} buffered` : destination.state
  const unread = series.sum('sluice_file_unread_bytes', labels)
  if (series.all('sluice_files_watched', labels).length > 0)
    return `${counted(series.sum('sluice_files_watched', labels), 'file')}, ${short(unread)}B unread`
  const [lag] = series.all('sluice_journal_lag_seconds', labels)
  if (lag) return `${formatDuration(lag.value * 1000)} behind`
  if (series.all('sluice_throttle_buckets', labels).length > 0) return throttleState(series, labels)
  return ''
}

function throttleState(series: Series, labels: Record<string, string>): string {
  const isAlone = series.all('sluice_throttle_backend_up', labels).some(({ value }) => value === 0)
  const keys = `${isAlone ? 'no server, ' : ''}${counted(series.sum('sluice_throttle_buckets', labels), 'key')}`
  const waiting = series.sum('sluice_component_waiting_events', labels)
  return waiting === 0 ? keys : `${keys}, ${counted(waiting, 'event')} ${waiting === 1 ? 'waits' : 'wait'}`
}
