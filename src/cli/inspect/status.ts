import type { ReportedProblem } from '../../core/status-document.js'
import type { DaemonOptions, OtherDaemons } from '../../daemon/admin/daemon-socket.js'
import { type DaemonView, terminalOf, viewOf } from '../../daemon/admin/daemon-view.js'
import type { Io } from '../../daemon/process/command-line.js'
import { EXIT } from '../../daemon/process/dispatch.js'
import { wrap } from '../../daemon/process/wrap.js'
import { printable, printableJson } from '../../lib/printable.js'
import { clockTime, counted, lasting, short } from '../../lib/units.js'
import { findDaemon, statusFrom } from './find-daemon.js'
import { activityLines, backlogLines, managedLine, otherLines } from './screen-parts.js'

const SHOWN_BACKLOG = 5
const [BOLD, RED, GREEN, YELLOW] = [1, 31, 32, 33]

/**
 * Prints one screen: problems with advice, notices, then the current activity. If problems exist, the exit code is 1.
 */
export async function printStatus(options: DaemonOptions & { json: boolean }, io: Io): Promise<number> {
  const daemon = await findDaemon(options, io.env)
  const document = await statusFrom(daemon)
  const { series: _, ...shown } = document
  const text = options.json
    ? printableJson(JSON.stringify(shown, null, 2))
    : statusLines(viewOf(document), terminalOf(io), daemon.others).join('\n')
  io.stdout.write(`${text}\n`)
  return document.problems.length === 0 ? EXIT.done : EXIT.failed
}

export function statusLines(
  view: DaemonView,
  { width, color }: ReturnType<typeof terminalOf>,
  others?: OtherDaemons,
): string[] {
  const { problems, notices, reloading_since: since } = view
  const paint = (code: number, text: string) => (color ? `\x1b[${code}m${text}\x1b[0m` : text)
  const lines = [paint(BOLD, headline(view)), ...otherLines(others, width)]
  if (since !== undefined) lines.push(`Reloading since ${clockTime(since, view.wall)}.`)
  const managed = managedLine(view)
  if (managed !== undefined) lines.push(...wrap(printable(managed), width, '  '))
  if (problems.length === 0) lines.push(paint(GREEN, 'Nothing is wrong.'))
  lines.push(...problemLines(problems, '!', width, line => paint(RED, line)))
  lines.push(...problemLines(notices, '-', width, line => paint(YELLOW, line)))
  const past = pastOutages(view)
  if (past.length > 0) lines.push('', 'Past outages; delivery works again:')
  for (const outage of past) lines.push(...wrap(`  ${printable(outage)}`, width, '    '))
  // in + emitted = out + discarded + consumed + in flight
  const rare = (['emitted', 'consumed'] as const).filter(name => view.components.some(one => one[name]))
  const rows = view.components.map(({ id, type, received, sent, discarded, in_flight, ...one }) => [
    `${id} (${type})`,
    ...[received, sent, discarded, ...rare.map(name => one[name] ?? 0), in_flight].map(short),
  ])
  const head = ['component', 'in', 'out', 'discarded', ...rare, 'in flight']
  lines.push('', ...activityLines([head, ...rows], view, width))
  return [...lines, ...backlogLines(view, width, SHOWN_BACKLOG)]
}

/** Problems with their advice and commands. `mark`: the first character of each problem. */
export function problemLines(
  problems: readonly ReportedProblem[],
  mark: string,
  width: number,
  paint: (line: string) => string,
): string[] {
  return grouped(problems).flatMap(({ todo, commands = [], all }) => [
    '',
    ...all.flatMap(({ what, detail }) => [
      ...wrap(`${mark} ${printable(what)}`, width, '  ').map(paint),
      ...(detail === undefined ? [] : wrap(`  ${printable(detail)}`, width, '  ')),
    ]),
    ...wrap(`  ${printable(todo)}`, width, '  '),
    // A command is never wrapped, because the user may copy it.
    ...commands.map(command => `    ${printable(command)}`),
  ])
}

interface Group extends Pick<ReportedProblem, 'todo' | 'commands'> {
  readonly all: ReportedProblem[]
}

/** Groups problems that have the same advice, to show the advice once. */
function grouped(problems: readonly ReportedProblem[]): Group[] {
  const groups = new Map<string, Group>()
  for (const problem of problems) {
    const { todo, commands } = problem
    const key = JSON.stringify([todo, commands])
    const group = groups.get(key) ?? { todo, ...(commands && { commands }), all: [] }
    group.all.push(problem)
    groups.set(key, group)
  }
  return [...groups.values()]
}

function headline(view: DaemonView): string {
  const { ready, stopping, wall, version_of_sluice: version, node, started_at, memory } = view
  const upSeconds = Math.max(0, (wall - Date.parse(started_at ?? '')) / 1000) || 0
  const state = stopping ? 'stopping' : ready ? 'ready' : 'not ready'
  return `Sluice ${version} on Node ${node}, up ${upTime(upSeconds)}${memory === undefined ? '' : `, ${short(memory)}B of memory`}, ${state}`
}

/** For each destination that has recovered: its last outage. */
function pastOutages({ destinations, wall }: DaemonView): string[] {
  return destinations.flatMap(({ id, state, last_outage: outage }) => {
    if (state !== 'ready' || outage === undefined) return []
    const { since, until, failures, error } = outage
    const lasted = lasting((Date.parse(until) - Date.parse(since)) / 1000)
    return [
      `${id}: ${clockTime(since, wall)} to ${clockTime(until, wall)} (${lasted}), ${counted(failures, 'failed attempt')}: ${error}`,
    ]
  })
}

function upTime(seconds: number): string {
  const parts = [Math.floor(seconds / 86_400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60]
  const names = ['d', 'h', 'min']
  const first = parts.findIndex(part => part > 0)
  if (first === -1) return `${Math.floor(seconds)} s`
  return parts
    .slice(first, first + 2)
    .map((part, i) => `${part} ${names[first + i]}`)
    .join(' ')
}
