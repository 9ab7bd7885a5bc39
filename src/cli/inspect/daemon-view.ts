import type { ProcessorOutage } from '../../core/component.js'
import { textOf } from '../../daemon/admin/ask-socket.js'
import { STOPPING } from '../../daemon/admin/ready.js'
import type { Io } from '../../daemon/process/command-line.js'
import type { ManagedReport } from '../../daemon/run/managed-report.js'
import type { DestinationState } from '../../engine/run/engine.js'
import { systemClock } from '../../lib/time.js'
import { formatDuration } from '../../lib/units.js'
import { ask } from './daemon-socket.js'
import { Scrape } from './scrape.js'
import { type Waits, waitsIn } from './waits.js'

/** One destination as reported by /readyz; times are in ISO 8601. */
export interface DestinationView {
  readonly id: string
  readonly state: string
  readonly reason?: string
  readonly since?: string
  readonly failures?: number
  readonly last_failure?: string
  readonly next_attempt?: string
  readonly oldest_event?: string
  readonly last_outage?: DestinationState['last_outage']
}

/** The state of a daemon at one moment. */
export interface DaemonView {
  /** Monotonic seconds of this process. */
  readonly at: number
  /** Milliseconds since the epoch. */
  readonly wall: number
  readonly scrape: Scrape
  readonly ready: boolean
  /** A signal ends the daemon, which still delivers what it has read. */
  readonly stopping: boolean
  /** When the reload that is under way began; undefined: none is. */
  readonly reloadingSince?: string | undefined
  readonly destinations: readonly DestinationView[]
  /** Sources that wait for an operator, or that fail and are restarted. */
  readonly failing: readonly { readonly id: string; readonly state: string; readonly reason: string }[]
  /** Processors that need a server which does not reply. */
  readonly outages: readonly (ProcessorOutage & { readonly id: string })[]
  readonly components: readonly { readonly id: string; readonly kind: string; readonly type: string }[]
  /** Components in which events wait, and what for. */
  readonly waiting: readonly Waits[]
  /** For a managed daemon. */
  readonly managed?: ManagedReport | undefined
  /** The path of its configuration, if that is a file, and its data_dir; undefined while it is starting. */
  readonly about: { readonly config?: string; readonly data_dir: string } | undefined
}

const RECEIVED = 'sluice_component_received_events_total'
const ORDER = ['source', 'processor', 'destination']

export async function viewDaemon(socket: string, at: number): Promise<DaemonView> {
  const [metrics, about, ready] = await Promise.all([
    ask(socket, '/metrics').then(textOf),
    aboutDaemon(socket),
    ask(socket, '/readyz').then(async response => ({
      ok: response.statusCode === 200,
      body: JSON.parse(await textOf(response)) as Pick<DaemonView, 'destinations'> & {
        status: string
        reloading_since?: string
        sources?: DaemonView['failing']
        processors?: DaemonView['outages']
        managed?: ManagedReport
      },
    })),
  ])
  const scrape = new Scrape(metrics)
  const components = scrape.all(RECEIVED).map(({ labels }) => ({
    id: labels.component_id!,
    kind: labels.component_kind!,
    type: labels.component_type!,
  }))
  components.sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind))
  const { status, destinations, sources: failing = [], processors: outages = [], managed } = ready.body
  const { reloading_since: reloadingSince } = ready.body
  const waiting = await waitsIn(socket, scrape)
  const wall = systemClock.wall()
  const stopping = status === STOPPING
  return {
    at,
    wall,
    scrape,
    ready: ready.ok,
    stopping,
    reloadingSince,
    destinations,
    failing,
    outages,
    components,
    waiting,
    managed,
    about,
  }
}

/** The paths of a daemon's configuration and data; undefined if it does not report them. */
export async function aboutDaemon(socket: string): Promise<DaemonView['about']> {
  const answer = await ask(socket, '/about')
  const text = await textOf(answer)
  return answer.statusCode === 200 ? (JSON.parse(text) as DaemonView['about']) : undefined
}

/** Properties of the terminal. */
export interface TerminalStyle {
  readonly width: number
  /** Undefined if stdout is not a terminal, or the terminal cannot overwrite text. */
  readonly height: number | undefined
  /** Whether to use colours. */
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

const UNITS = ['', 'k', 'M', 'G', 'T', 'P']

/** Formats a number with at most five characters: 999, 12.3k, 4.56M. */
export function short(value: number): string {
  let unit = 0
  let rest = value
  while (Math.round(rest) >= 1000 && unit < UNITS.length - 1) {
    rest /= 1000
    unit++
  }
  if (unit === 0) return rest > 0 && rest < 10 && !Number.isInteger(rest) ? rest.toFixed(1) : String(Math.round(rest))
  return `${rest.toFixed(rest < 9.995 ? 2 : rest < 99.95 ? 1 : 0)}${UNITS[unit]}`
}

/** Formats columns, the first aligned left and the others right, at most `width` wide; the first one is shortened. */
export function table(rows: readonly (readonly string[])[], width: number): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map(row => row[column]!.length)))
  const rest = widths.slice(1).reduce((sum, own) => sum + own + 2, 0)
  const first = Math.max(8, Math.min(widths[0] ?? 0, width - rest))
  return rows.map(row =>
    row
      .map((cell, column) => {
        if (column > 0) return cell.padStart(widths[column]! + 2)
        return cutWithin(cell, first).padEnd(first)
      })
      .join('')
      .slice(0, width)
      .trimEnd(),
  )
}

/** Shortens a name in its middle, since names mostly differ at the end. */
function cutWithin(text: string, length: number): string {
  if (text.length <= length) return text
  const end = Math.floor((length - 1) / 2)
  return `${text.slice(0, length - 1 - end)}…${text.slice(-end)}`
}

/** A table with the state of each component in a last column, if there is room. */
export function tableWithStates(rows: readonly (readonly string[])[], view: DaemonView, width: number): string[] {
  const states = ['', ...view.components.map(({ id }) => stateOf(view, id))]
  const longest = Math.max(...states.map(state => state.length))
  const lines = table(rows, width - (longest === 0 ? 0 : longest + 2))
  return lines.map((line, i) => `${line}  ${states[i] ?? ''}`.slice(0, width).trimEnd())
}

/** Growth of a counter per second between two moments. */
export function rateOf(before: DaemonView, now: DaemonView, name: string, labels: Record<string, string>): number {
  const seconds = Math.max(now.at - before.at, 0.001)
  return Math.max(0, now.scrape.sum(name, labels) - before.scrape.sum(name, labels)) / seconds
}

/** What a component waits for or keeps, in a word or two. */
export function stateOf({ scrape, destinations }: Pick<DaemonView, 'scrape' | 'destinations'>, id: string): string {
  const labels = { component_id: id }
  const destination = destinations.find(one => one.id === id)
  const buffered = scrape.sum('sluice_buffer_events', labels)
  if (destination) return buffered > 0 ? `${destination.state}, ${short(buffered)} buffered` : destination.state
  const unread = scrape.sum('sluice_file_unread_bytes', labels)
  if (scrape.all('sluice_files_watched', labels).length > 0)
    return `${counted(scrape.sum('sluice_files_watched', labels), 'file')}, ${short(unread)}B unread`
  const [lag] = scrape.all('sluice_journal_lag_seconds', labels)
  if (lag) return `${formatDuration(lag.value * 1000)} behind`
  if (scrape.all('sluice_throttle_buckets', labels).length > 0) return throttleState(scrape, labels)
  return ''
}

function throttleState(scrape: Scrape, labels: Record<string, string>): string {
  const isAlone = scrape.all('sluice_throttle_backend_up', labels).some(({ value }) => value === 0)
  const keys = `${isAlone ? 'no server, ' : ''}${counted(scrape.sum('sluice_throttle_buckets', labels), 'key')}`
  const waiting = scrape.sum('sluice_component_waiting_events', labels)
  return waiting === 0 ? keys : `${keys}, ${counted(waiting, 'event')} ${waiting === 1 ? 'waits' : 'wait'}`
}

/** Local time of day, with the date if that is not today. */
export function clockTime(time: string, wall: number): string {
  const at = new Date(time)
  const clock = at.toTimeString().slice(0, 8)
  if (at.toDateString() === new Date(wall).toDateString()) return clock
  const two = (n: number) => String(n).padStart(2, '0')
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock}`
}

/** `1 file`, `2 files`. */
export function counted(count: number, what: string): string {
  return `${short(count)} ${what}${count === 1 ? '' : 's'}`
}
