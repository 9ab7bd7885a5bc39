import type { DaemonOptions } from '../../daemon/admin/daemon-socket.js'
import { type DaemonView, rateOf, table, terminalOf, viewOf } from '../../daemon/admin/daemon-view.js'
import { type Io, wholeNumber } from '../../daemon/process/command-line.js'
import { EXIT } from '../../daemon/process/dispatch.js'
import { untilInterrupted } from '../../daemon/process/interrupted.js'
import { beginning, wrap } from '../../daemon/process/wrap.js'
import { printable } from '../../lib/printable.js'
import { sleep } from '../../lib/time.js'
import { short } from '../../lib/units.js'
import { findDaemon, statusFrom } from './find-daemon.js'
import { activityLines, backlogLines, intervalOf, managedLine, otherLines } from './screen-parts.js'
import { keyLines, keysOf, type ThrottleKeys } from './top-keys.js'

export interface TopOptions extends DaemonOptions {
  readonly interval: string | undefined
  /** The command ends after this number of screens. If undefined, the command runs until it is interrupted. */
  readonly count: string | undefined
}

const SHOWN_REASONS = 8
const SHOWN_BACKLOG = 3
/** Maximum number of lines of the worst problem to show. */
const SHOWN_OF_PROBLEM = 4

/** Shows live rates of every component. Redraws the screen or, in a pipe, prints one screen after the other. */
export async function top(options: TopOptions, io: Io): Promise<number> {
  const intervalMs = intervalOf(options.interval ?? '1s', 'top')
  const count = options.count === undefined ? Number.POSITIVE_INFINITY : wholeNumber(options.count, 'count', 'top')
  const daemon = await findDaemon(options, io.env)
  const view = async () => viewOf(await statusFrom(daemon))
  const { width, height } = terminalOf(io)
  const others = otherLines(daemon.others, width)
  await untilInterrupted(async signal => {
    let before = await view()
    for (let shown = 0; shown < count; shown++) {
      const counting = keysOf(daemon.socket, before, intervalMs, signal)
      // If the daemon is gone, the next request reports this.
      counting.catch(() => {})
      await sleep(intervalMs, signal)
      if (signal.aborted) break
      const now = await view()
      const text = [...others, screen(before, now, width, await counting)].join('\n')
      io.stdout.write(
        height === undefined ? `${shown > 0 ? '\n' : ''}${text}` : redrawn(text, width, height, shown === 0),
      )
      before = now
    }
  })
  return EXIT.done
}

/** Redraws the screen without flicker. Cuts long lines, because a line that wraps would move the lines below it. */
export function redrawn(text: string, width: number, height: number, first: boolean): string {
  const lines = text
    .trimEnd()
    .split('\n')
    .slice(0, height - 1)
    .map(line => beginning(line, width))
  return `${first ? '\x1b[2J' : ''}\x1b[H${lines.map(line => `${line}\x1b[K\n`).join('')}\x1b[J`
}

/** Formats the changes between two moments. */
export function screen(before: DaemonView, now: DaemonView, width: number, keys: readonly ThrottleKeys[] = []): string {
  const rows = now.components.map(({ id, in_flight }) => {
    const of = (name: 'received' | 'received_bytes' | 'sent' | 'discarded') => {
      return short(rateOf(before, now, id, one => one[name]))
    }
    return [id, of('received'), of('received_bytes'), of('sent'), of('discarded'), short(in_flight)]
  })
  const head = ['component', 'in/s', 'bytes/s', 'out/s', 'discard/s', 'in flight']
  const managed = managedLine(now)
  const about = managed === undefined ? [] : [...wrap(printable(managed), width, '  '), '']
  const lines = [...about, ...activityLines([head, ...rows], now, width)]
  lines.push('', ...discards(before, now, width), ...keyLines(keys, width, now.wall))
  lines.push(...backlogLines(now, width, SHOWN_BACKLOG))
  const [worst, ...more] = now.problems
  if (worst) {
    lines.push('', ...wrap(`! ${printable(worst.what)}`, width, '  ').slice(0, SHOWN_OF_PROBLEM))
    if (worst.detail !== undefined) lines.push(...wrap(`  ${printable(worst.detail)}`, width, '  '))
    lines.push(more.length > 0 ? `  and ${more.length} more: see sluice status` : '  see sluice status')
  }
  return `${lines.join('\n').trimEnd()}\n`
}

function discards(before: DaemonView, now: DaemonView, width: number): string[] {
  const found = now.components
    .flatMap(({ id, discarded_for = {} }) =>
      Object.entries(discarded_for).map(([reason, total]) => {
        const rate = rateOf(before, now, id, one => one.discarded_for?.[reason])
        return { what: printable(`${id}: ${reason}`), total, rate }
      }),
    )
    .filter(({ total }) => total > 0)
    .sort((a, b) => b.rate - a.rate || b.total - a.total)
  if (found.length === 0) return []
  const rows = found.slice(0, SHOWN_REASONS).map(({ what, rate, total }) => [what, short(rate), short(total)])
  return table([['discarded, by reason', 'per s', 'in all'], ...rows], width)
}
