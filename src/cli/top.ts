import { sleep, systemClock } from '../lib/time.js'
import { parseDuration } from '../lib/units.js'
import { type Io, UsageError } from './command-line.js'
import { type DaemonOptions, findSocket } from './daemon-socket.js'
import { troublesOf } from './daemon-troubles.js'
import { type DaemonView, lookOf, short, table, viewDaemon } from './daemon-view.js'
import { EXIT } from './dispatch.js'

export interface TopOptions extends DaemonOptions {
  readonly interval: string | undefined
  /** Screens before it ends; undefined: until it is interrupted. */
  readonly count: string | undefined
}

const SHOWN_REASONS = 8

/** Live rates of every component, screen by screen; in a pipe one after the other. */
export async function top(options: TopOptions, io: Io): Promise<number> {
  const intervalMs = parseDuration(options.interval ?? '1s')
  if (intervalMs === undefined || intervalMs < 100)
    throw new UsageError('--interval is a duration of at least 100ms', 'top')
  const count = options.count === undefined ? Number.POSITIVE_INFINITY : Number(options.count)
  if (!(count >= 1)) throw new UsageError('--count is a whole number, at least 1', 'top')
  const socket = findSocket(options, io.env)
  const view = () => viewDaemon(socket, systemClock.now() / 1000)
  const { width, color } = lookOf(io)
  const ended = new AbortController()
  const onSignal = () => ended.abort()
  process.once('SIGINT', onSignal)
  process.once('SIGTERM', onSignal)
  try {
    let before = await view()
    for (let shown = 0; shown < count; shown++) {
      await sleep(intervalMs, ended.signal)
      if (ended.signal.aborted) break
      const now = await view()
      // Home, the screen, and what is left of the one before.
      io.stdout.write(
        color ? `\x1b[H\x1b[2J${screen(before, now, width)}` : `${shown > 0 ? '\n' : ''}${screen(before, now, width)}`,
      )
      before = now
    }
  } finally {
    process.off('SIGINT', onSignal)
    process.off('SIGTERM', onSignal)
  }
  return EXIT.done
}

/** What happened between two moments. */
export function screen(before: DaemonView, now: DaemonView, width: number): string {
  const seconds = Math.max(now.at - before.at, 0.001)
  const rate = (name: string, labels: Record<string, string>) =>
    short(Math.max(0, now.scrape.sum(name, labels) - before.scrape.sum(name, labels)) / seconds)
  const rows = now.components.map(({ id }) => {
    const labels = { component_id: id }
    const of = (name: string) => rate(`sluice_component_${name}_total`, labels)
    const inFlight = short(now.scrape.sum('sluice_component_in_flight_events', labels))
    return [id, of('received_events'), of('received_bytes'), of('sent_events'), of('discarded_events'), inFlight]
  })
  const head = ['component', 'in/s', 'bytes/s', 'out/s', 'discard/s', 'in flight']
  const states = ['', ...now.components.map(({ id }) => stateOf(now, id))]
  const lines = table([head, ...rows], width).map((line, i) => `${line}  ${states[i]}`.slice(0, width).trimEnd())
  lines.push('', ...discards(before, now, seconds, width))
  const [worst, ...more] = troublesOf(now)
  if (worst)
    lines.push(
      '',
      `! ${worst.what}`.slice(0, width),
      ...(more.length > 0 ? [`  and ${more.length} more: see sluice status`] : []),
    )
  return `${lines.join('\n').trimEnd()}\n`
}

/** What a component waits for or keeps, in a word or two. */
function stateOf({ scrape, destinations }: DaemonView, id: string): string {
  const labels = { component_id: id }
  const destination = destinations.find(one => one.id === id)
  const buffered = scrape.sum('sluice_buffer_events', labels)
  if (destination) return buffered > 0 ? `${destination.state}, ${short(buffered)} buffered` : destination.state
  const unread = scrape.sum('sluice_file_unread_bytes', labels)
  if (scrape.all('sluice_files_watched', labels).length > 0)
    return `${short(scrape.sum('sluice_files_watched', labels))} files, ${short(unread)}B unread`
  if (scrape.all('sluice_throttle_buckets', labels).length > 0)
    return `${short(scrape.sum('sluice_throttle_buckets', labels))} keys`
  return ''
}

function discards(before: DaemonView, now: DaemonView, seconds: number, width: number): string[] {
  const name = 'sluice_component_discarded_events_total'
  const found = now.scrape
    .all(name)
    .map(({ labels, value }) => ({
      what: `${labels.component_id}: ${labels.reason}`,
      total: value,
      rate: (value - before.scrape.sum(name, { component_id: labels.component_id!, reason: labels.reason! })) / seconds,
    }))
    .filter(({ total }) => total > 0)
    .sort((a, b) => b.rate - a.rate || b.total - a.total)
  if (found.length === 0) return []
  const rows = found.slice(0, SHOWN_REASONS).map(({ what, rate, total }) => [what, short(rate), short(total)])
  return table([['discarded, by reason', 'per s', 'in all'], ...rows], width)
}
