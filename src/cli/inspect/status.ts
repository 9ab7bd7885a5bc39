import type { Io } from '../../daemon/process/command-line.js'
import { EXIT } from '../../daemon/process/dispatch.js'
import { wrap } from '../../daemon/process/wrap.js'
import { printable, printableJson } from '../../lib/printable.js'
import { systemClock } from '../../lib/time.js'
import { bottleneckLines, bottleneckOf } from './bottleneck.js'
import { backlogLines } from './daemon-backlog.js'
import { type DaemonOptions, findSocket } from './daemon-socket.js'
import { clockTime, type DaemonView, short, tableWithStates, terminalOf, viewDaemon } from './daemon-view.js'
import { type Problem, problemsOf } from './problems/daemon.js'
import { pastOutages } from './problems/destination.js'
import { managedLine } from './problems/managed.js'
import { noticesOf } from './problems/orphan.js'
import { waitLines } from './waits.js'

const SHOWN_BACKLOG = 5
const [BOLD, RED, GREEN, YELLOW] = [1, 31, 32, 33]

/** Prints one screen: problems with advice, notices, then the current activity. Resolves with 1 for problems. */
export async function status(options: DaemonOptions & { json: boolean }, io: Io): Promise<number> {
  const view = await viewDaemon(findSocket(options, io.env), systemClock.now() / 1000)
  const problems = problemsOf(view)
  const notices = noticesOf(view)
  if (options.json) {
    const { ready, stopping, reloadingSince, destinations, components, waiting, managed } = view
    const bottleneck = bottleneckOf(view)
    const listed = components.map(({ id, kind, type }) => ({ id, kind, type, ...amounts(view, id) }))
    io.stdout.write(
      `${printableJson(JSON.stringify({ ready, ...(stopping && { stopping }), reloading_since: reloadingSince, problems, notices, managed, bottleneck, destinations, waiting, components: listed }, null, 2))}\n`,
    )
    return problems.length === 0 ? EXIT.done : EXIT.failed
  }
  io.stdout.write(`${statusLines(view, terminalOf(io)).join('\n')}\n`)
  return problems.length === 0 ? EXIT.done : EXIT.failed
}

/** The screen for people. */
export function statusLines(view: DaemonView, { width, color }: ReturnType<typeof terminalOf>): string[] {
  const problems = problemsOf(view)
  const notices = noticesOf(view)
  const paint = (code: number, text: string) => (color ? `\x1b[${code}m${text}\x1b[0m` : text)
  const lines = [paint(BOLD, headline(view))]
  const { reloadingSince } = view
  if (reloadingSince !== undefined) lines.push(`Reloading since ${clockTime(reloadingSince, view.wall)}.`)
  const managed = managedLine(view)
  if (managed !== undefined) lines.push(...wrap(printable(managed), width, '  '))
  if (problems.length === 0) lines.push(paint(GREEN, 'Nothing is wrong.'))
  const add = (found: readonly Problem[], mark: string, color: number) => {
    for (const { todo, commands = [], all } of grouped(found)) {
      lines.push('')
      for (const { what, detail } of all) {
        lines.push(...wrap(`${mark} ${printable(what)}`, width, '  ').map(line => paint(color, line)))
        if (detail !== undefined) lines.push(...wrap(`  ${printable(detail)}`, width, '  '))
      }
      // A command is never wrapped, since it may be copied.
      lines.push(...wrap(`  ${printable(todo)}`, width, '  '), ...commands.map(command => `    ${printable(command)}`))
    }
  }
  add(problems, '!', RED)
  add(notices, '-', YELLOW)
  const past = pastOutages(view)
  if (past.length > 0) lines.push('', 'Past outages, delivering again:')
  for (const outage of past) lines.push(...wrap(`  ${printable(outage)}`, width, '    '))
  const rows = view.components.map(({ id, type }) => {
    const { received, sent, discarded, in_flight } = amounts(view, id)
    return [`${id} (${type})`, ...[received, sent, discarded, in_flight].map(short)]
  })
  const head = ['component', 'in', 'out', 'discarded', 'in flight']
  lines.push(
    '',
    ...tableWithStates([head, ...rows], view, width),
    ...bottleneckLines(view, width),
    ...waitLines(view, width),
  )
  return [...lines, ...backlogLines(view, width, SHOWN_BACKLOG)]
}

interface Group extends Pick<Problem, 'todo' | 'commands'> {
  readonly all: Problem[]
}

/** Groups problems with the same advice, which is shown once. */
function grouped(problems: readonly Problem[]): Group[] {
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

function headline({ scrape, ready, stopping }: DaemonView): string {
  const { version = '?', node = '?' } = scrape.all('sluice_build_info')[0]?.labels ?? {}
  const upSeconds = Math.max(0, systemClock.wall() / 1000 - scrape.sum('process_start_time_seconds'))
  const memory = short(scrape.sum('process_resident_memory_bytes'))
  const state = stopping ? 'stopping' : ready ? 'ready' : 'not ready'
  return `Sluice ${version} on Node ${node}, up ${upTime(upSeconds)}, ${memory}B of memory, ${state}`
}

function amounts({ scrape }: DaemonView, component_id: string) {
  const sum = (name: string) => scrape.sum(`sluice_component_${name}`, { component_id })
  return {
    received: sum('received_events_total'),
    sent: sum('sent_events_total'),
    discarded: sum('discarded_events_total'),
    in_flight: sum('in_flight_events'),
    utilization: scrape.all('sluice_component_utilization', { component_id })[0]?.value,
  }
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
