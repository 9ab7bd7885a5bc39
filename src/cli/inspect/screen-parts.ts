import type { Status } from '../../core/status-document.js'
import type { OtherDaemons } from '../../daemon/admin/daemon-socket.js'
import { type DaemonView, table, tableWithStates } from '../../daemon/admin/daemon-view.js'
import { UsageError } from '../../daemon/process/command-line.js'
import { displayWidth, wrap } from '../../daemon/process/wrap.js'
import { printable } from '../../lib/printable.js'
import { lasting, parseDuration, short } from '../../lib/units.js'

/** The pipeline and revision that a managed daemon runs, and when the service last responded. */
export function managedLine({ managed, wall }: Pick<DaemonView, 'managed' | 'wall'>): string | undefined {
  if (!managed) return undefined
  const { pipeline, service, revision, published, last_contact } = managed
  const runs = revision === undefined ? 'no revision runs' : `revision ${revision}`
  const newer = published !== undefined && published !== revision ? ` (${published} is published)` : ''
  const contact =
    last_contact === undefined ? 'no contact yet' : `last contact ${lasting(wall / 1000 - last_contact)} ago`
  return `Pipeline ${pipeline}, ${runs}${newer}; ${contact} with ${service}`
}

/** Names the daemons that a screen does not show. Never wraps the command, because the user may copy it. */
export function otherLines(others: OtherDaemons | undefined, width: number): string[] {
  if (!others) return []
  const [text, command] = [`${printable(others.text)}:`, printable(others.command)]
  const line = `${text} ${command}`
  return displayWidth(line) <= width ? [line] : [...wrap(text, width, '  '), `  ${command}`]
}

function bottleneckLines({ bottleneck }: Pick<Status, 'bottleneck'>, width: number): string[] {
  if (!bottleneck) return []
  const text = `The bottleneck is ${bottleneck.id}: it was busy ${Math.round(bottleneck.share * 100)} % of the time lately.`
  return ['', ...wrap(text, width, '  ')]
}

const SHOWN_DESTINATIONS = 5

/** The destinations with `max_in_flight: auto` that have the most requests in flight. */
function requestLines({ destinations }: Pick<Status, 'destinations'>, width: number): string[] {
  const shown = destinations
    .flatMap(({ id, requests }) => (requests ? [{ id, ...requests }] : []))
    .sort((a, b) => b.in_flight - a.in_flight)
    .slice(0, SHOWN_DESTINATIONS)
    .map(({ id, in_flight, allowed }) => `${id} ${in_flight} of ${allowed}`)
  if (shown.length === 0) return []
  return ['', ...wrap(`Requests in flight: ${shown.join(', ')} (max_in_flight: auto)`, width, '  ')]
}

/** The age of each destination's oldest waiting event. Ages below a second are left out. */
export function oldestLines(view: Pick<DaemonView, 'destinations' | 'wall'>, width: number): string[] {
  const shown = view.destinations
    .map(one => ({ id: one.id, age: ageOf(one, view) }))
    .filter(({ age }) => age >= 1)
    .sort((a, b) => b.age - a.age)
    .slice(0, SHOWN_DESTINATIONS)
    .map(({ id, age }) => `${id} ${lasting(age)}`)
  return shown.length === 0 ? [] : ['', ...wrap(`Oldest event to deliver: ${shown.join(', ')}`, width, '  ')]
}

/** The age of a destination's oldest waiting event in seconds; 0 if no event waits. */
const ageOf = ({ oldest_event }: DaemonView['destinations'][number], { wall }: Pick<DaemonView, 'wall'>): number =>
  oldest_event === undefined ? 0 : Math.max(0, wall - Date.parse(oldest_event)) / 1000

const SHOWN_BUCKETS = 3

/** Lines such as `limit_app: 812 events wait for room (on_backlog: pace, for 1h 0m at most): 800 of cart for 2m 5s`. */
function waitLines({ waiting, wall }: Pick<DaemonView, 'waiting' | 'wall'>, width: number): string[] {
  const lines = waiting.flatMap(({ id, events, options, buckets }) => {
    const shown = buckets.slice(0, SHOWN_BUCKETS).map(({ key, events, since }) => {
      const ago = lasting((wall - Date.parse(since)) / 1000)
      return `${events} of ${key ?? 'the default bucket'} for ${ago}`
    })
    const more = buckets.length > SHOWN_BUCKETS ? ['and others'] : []
    const what = `${id}: ${events} ${events === 1 ? 'event waits' : 'events wait'} for room`
    // In a narrow screen, the buckets begin a line, so the number of the first is not torn from its name.
    const parts = [`${what} (${options.join('; ')}):`, [...shown, ...more].join(', ')].map(printable)
    const line = parts.join(' ')
    return displayWidth(line) <= width
      ? [line]
      : parts.flatMap((part, i) => wrap(i === 0 ? part : `  ${part}`, width, '  '))
  })
  return lines.length === 0 ? [] : ['', ...lines]
}

/** The files with the most unread bytes, and how full the buffers and spools are. At most `most` rows of each. */
export function backlogLines(view: DaemonView, width: number, most: number): string[] {
  const files = [...view.backlog]
    .sort((a, b) => b.bytes - a.bytes)
    .map(({ component, name, bytes }) => [`${printable(name)} (${component})`, `${short(bytes)}B`])
  const stored = (kind: 'buffer' | 'spool') => view.destinations.filter(one => (one[kind]?.events ?? 0) > 0)
  const sizes = ({ used_bytes: used, max_bytes: max }: Sizes) => [
    `${short(used)}B`,
    `${short(Math.max(0, max - used))}B`,
  ]
  const share = ({ used_bytes: used, max_bytes: max }: Sizes) => used / max
  const buffers = stored('buffer')
    .sort((a, b) => share(b.buffer!) - share(a.buffer!))
    .map(({ id, buffer }) => [id, short(buffer!.events), ...sizes(buffer!)])
  const spools = stored('spool')
    .sort((a, b) => b.spool!.used_bytes - a.spool!.used_bytes)
    .map(one => {
      const { events, open, closed } = one.spool!
      return [one.id, ...[events, open, closed].map(short), lasting(ageOf(one, view)), ...sizes(one.spool!)]
    })
  const spoolHead = ['spools', 'events', 'open objects', 'closed', 'oldest', 'used', 'room left']
  const shown = (head: string[], rows: string[][]) =>
    rows.length > 0 ? ['', ...table([head, ...rows.slice(0, most)], width)] : []
  return [
    ...shown(['files furthest behind', 'unread'], files),
    ...shown(['disk buffers', 'events', 'used', 'room left'], buffers),
    ...shown(spoolHead, spools),
  ]
}

type Sizes = NonNullable<DaemonView['destinations'][number]['buffer']>

/** A table of components with their states, and what they are busy with or wait for. */
export const activityLines = (rows: readonly (readonly string[])[], view: DaemonView, width: number): string[] => [
  ...tableWithStates(rows, view, width),
  ...requestLines(view, width),
  ...oldestLines(view, width),
  ...bottleneckLines(view, width),
  ...waitLines(view, width),
]

const SHORTEST_MS = 100

/** The value of --interval in milliseconds; throws UsageError. */
export function intervalOf(text: string, command: string): number {
  const ms = parseDuration(text)
  if (ms !== undefined && ms >= SHORTEST_MS) return ms
  const hint =
    /^\d+(\.\d+)?$/.test(text) && Number(text) > 0
      ? ` and has a unit; write --interval ${text}s for seconds`
      : ', as in 10s'
  throw new UsageError(`--interval is a duration of at least ${SHORTEST_MS}ms${hint}`, command)
}
