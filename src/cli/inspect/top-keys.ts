import type { BucketState, KeyCounts } from '../../core/component.js'
import { textOf } from '../../daemon/admin/ask-socket.js'
import { LONGEST_MS } from '../../daemon/admin/keys.js'
import type { KeyEvents, ThrottleView } from '../../daemon/page/watch/throttle-watch.js'
import { wrap } from '../../daemon/process/wrap.js'
import { printable } from '../../lib/printable.js'
import { short } from '../../lib/units.js'
import { discardedText } from '../screen/discarded-text.js'
import { ask } from './daemon-socket.js'
import { type DaemonView, table } from './daemon-view.js'

export interface ThrottleKeys extends KeyCounts {
  readonly id: string
  readonly seconds: number
  /** Events of the last minute by key, as a daemon with a status page counts them. */
  readonly minute?: ReadonlyMap<string | null, KeyEvents>
}

const SHOWN_KEYS = 5
const SHOWN_THROTTLES = 3

/** Makes the throttles of a daemon count by key for `ms` or until the signal aborts. */
export async function keysOf(
  socket: string,
  { series, status_page: page }: DaemonView,
  forMs: number,
  signal: AbortSignal,
): Promise<ThrottleKeys[]> {
  const ids = [...series.by('component_id', 'sluice_throttle_buckets').keys()].slice(0, SHOWN_THROTTLES)
  const all = await Promise.all(ids.map(id => keysOfOne(socket, id, forMs, signal, page !== undefined)))
  return all.filter(keys => keys !== undefined)
}

async function keysOfOne(
  socket: string,
  id: string,
  forMs: number,
  signal: AbortSignal,
  hasPage: boolean,
): Promise<ThrottleKeys | undefined> {
  const ms = Math.min(LONGEST_MS, Math.max(1, Math.round(forMs)))
  const query = new URLSearchParams({ component: id, for: String(ms) })
  const answer = await ask(socket, `/keys?${query}`, signal)
  const text = await textOf(answer)
  // A reload may have removed the throttle.
  if (answer.statusCode !== 200) return undefined
  const counts = JSON.parse(text) as KeyCounts
  const minute = hasPage ? await lastMinute(socket, id, counts, signal) : undefined
  return { id, seconds: ms / 1000, ...counts, ...(minute && { minute }) }
}

/** Resolves with undefined if the daemon's page has ended meanwhile. */
async function lastMinute(
  socket: string,
  id: string,
  { keys }: KeyCounts,
  signal: AbortSignal,
): Promise<ThrottleKeys['minute']> {
  const query = new URLSearchParams(keys.slice(0, SHOWN_KEYS).map(({ key }): [string, string] => ['key', key ?? '']))
  const answer = await ask(socket, `/api/v1/throttles/${encodeURIComponent(id)}?${query}`, signal)
  const text = await textOf(answer)
  if (answer.statusCode !== 200) return undefined
  const { keys: counted } = JSON.parse(text) as Pick<ThrottleView, 'keys'>
  return new Map(counted.map(({ key, last_minute }) => [key, last_minute]))
}

/** A table of the busiest keys for each throttle that had events, with the state of their buckets. */
export function keyLines(throttles: readonly ThrottleKeys[], width: number): string[] {
  return throttles.flatMap(({ id, seconds, exact, keys, minute, discarded_to: readers }) => {
    if (keys.length === 0) return []
    const shown = keys.slice(0, SHOWN_KEYS)
    const rows = shown.map(({ key, passed, discarded }) => [
      key === null ? '(no key)' : printable(key),
      ...[passed, discarded].map(events => short(events / seconds)),
    ])
    const head = [`${id}: busiest keys${exact ? '' : ' (a sample)'}`, 'passed/s', 'discard/s']
    if (minute) {
      head.push('passed/min', 'discard/min')
      for (const [i, { key }] of shown.entries()) rows[i]!.push(...minuteCells(minute.get(key)))
    }
    if (shown.some(({ bucket }) => bucket)) {
      head.push('window', 'discard/h')
      for (const [i, { bucket }] of shown.entries()) rows[i]!.push(...bucketCells(bucket))
    }
    return [
      '',
      ...table([head, ...rows], width),
      ...(readers === undefined ? [] : wrap(discardedText(readers), width, '  ')),
    ]
  })
}

const minuteCells = (events: KeyEvents | undefined): [string, string] =>
  events ? [events.passed.toLocaleString('en-US'), events.discarded.toLocaleString('en-US')] : ['', '']

/** Two cells: how full the bucket's window is, and how many events of the bucket were discarded in the last hour. */
function bucketCells(bucket: BucketState | undefined): [string, string] {
  if (!bucket) return ['', '']
  const { limit, used = 0, discarded_last_hour: lost, is_exact: isExact } = bucket
  return [limit === undefined ? '' : `${short(used)}/${short(limit)}`, `${isExact ? '' : '~'}${short(lost)}`]
}
