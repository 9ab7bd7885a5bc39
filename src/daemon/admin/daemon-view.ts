import type { ComponentStatus, Status } from '../../core/status-document.js'
import { deadline, systemClock } from '../../lib/time.js'
import type { Io } from '../process/command-line.js'
import { beginning, displayWidth, ending, padEnd, padStart, wrap } from '../process/wrap.js'
import { askJson } from './daemon-socket.js'

export interface DaemonView extends Omit<Status, 'at' | 'series'> {
  /** Seconds of this process's monotonic clock. */
  readonly at: number
  /** The daemon's time, in milliseconds since the epoch. */
  readonly wall: number
}

/** Call this as soon as the daemon has answered. */
export function viewOf({ series: _, at: time, ...status }: Status): DaemonView {
  return { ...status, at: systemClock.now() / 1000, wall: Date.parse(time) }
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

/** Columns of states in a narrow terminal. */
const LEAST_STATE = 16

/** Like `table`, with a last column for the state of each component. A long state continues on the next lines. */
export function tableWithStates(rows: readonly (readonly string[])[], view: DaemonView, width: number): string[] {
  const states = ['', ...view.components.map(({ state }) => state)]
  const longest = Math.max(...states.map(displayWidth))
  const others = Math.max(
    ...table(
      rows.map(([, ...cells]) => ['', ...cells]),
      Number.POSITIVE_INFINITY,
    ).map(displayWidth),
  )
  const room = Math.min(longest, Math.max(LEAST_STATE, width - others - 2))
  return table(rows, width - (room === 0 ? 0 : room + 2)).flatMap((line, i) =>
    wrap(states[i] ?? '', room, '').map((part, n) =>
      beginning(`${n === 0 ? line : ' '.repeat(displayWidth(line))}  ${part}`, width).trimEnd(),
    ),
  )
}

/** The growth of a count of a component per second between two moments. `of` reads the count. */
export function rateOf(
  before: DaemonView,
  now: DaemonView,
  id: string,
  of: (component: ComponentStatus) => number | undefined,
): number {
  const [first = 0, last = 0] = [before, now].map(({ components }) => {
    const found = components.find(one => one.id === id)
    return found && of(found)
  })
  return Math.max(0, last - first) / Math.max(now.at - before.at, 0.001)
}
