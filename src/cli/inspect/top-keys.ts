import type { BucketState, KeyCounts } from '../../components/throttle/keyed-processor.js'
import { askJson } from '../../daemon/admin/daemon-socket.js'
import { type DaemonView, table } from '../../daemon/admin/daemon-view.js'
import { LONGEST_MS } from '../../daemon/admin/keys.js'
import { wrap } from '../../daemon/process/wrap.js'
import { printable } from '../../lib/printable.js'
import { clockTime, short } from '../../lib/units.js'
import type { ThrottleKey, ThrottleView } from '../../page/server/watch/throttle-watch.js'
import { discardedText } from './discarded-text.js'

export interface ThrottleKeys extends KeyCounts {
  readonly id: string
  readonly seconds: number
  /** What a daemon with a status page knows about the keys. */
  readonly counted?: ReadonlyMap<string | null, CountedKey>
}

type CountedKey = Pick<ThrottleKey, 'last_minute' | 'since'>

const SHOWN_KEYS = 5
const SHOWN_THROTTLES = 3

/** Makes the throttles of a daemon count by key for `forMs` milliseconds, or until the signal aborts. */
export async function keysOf(
  socket: string,
  { components, status_page: page }: DaemonView,
  forMs: number,
  signal: AbortSignal,
): Promise<ThrottleKeys[]> {
  const throttles = components.filter(({ type }) => type === 'throttle').slice(0, SHOWN_THROTTLES)
  const all = await Promise.all(throttles.map(({ id }) => keysOfOne(socket, id, forMs, signal, page !== undefined)))
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
  const counts = await askJson<KeyCounts>(socket, `/keys?${query}`, signal)
  if (!counts) return undefined
  const counted = hasPage ? await countedKeys(socket, id, counts, signal) : undefined
  return { id, seconds: ms / 1000, ...counts, ...(counted && { counted }) }
}

/** Resolves with undefined if the daemon's page has ended in the meantime. */
async function countedKeys(
  socket: string,
  id: string,
  { keys }: KeyCounts,
  signal: AbortSignal,
): Promise<ThrottleKeys['counted']> {
  const query = new URLSearchParams(keys.slice(0, SHOWN_KEYS).map(({ key }): [string, string] => ['key', key ?? '']))
  const path = `/api/v1/throttles/${encodeURIComponent(id)}?${query}`
  const view = await askJson<Pick<ThrottleView, 'keys'>>(socket, path, signal)
  return view && new Map(view.keys.map(one => [one.key, one]))
}

/** For each throttle that had events: a table of its busiest keys, with the state of their buckets. */
export function keyLines(throttles: readonly ThrottleKeys[], width: number, wall: number): string[] {
  return throttles.flatMap(({ id, seconds, exact, keys, counted, discarded_to: readers }) => {
    if (keys.length === 0) return []
    const shown = keys.slice(0, SHOWN_KEYS)
    const rows = shown.map(({ key, passed, discarded }) => [
      key === null ? '(no key)' : printable(key),
      ...[passed, discarded].map(events => short(events / seconds)),
    ])
    // More columns need a shorter head, so that the keys have room.
    const name = counted ? 'keys' : 'busiest keys'
    const head = [`${id}: ${name}${exact ? '' : ' (a sample)'}`, 'passed/s', 'discard/s']
    if (counted) {
      head.push('passed/min', 'discard/min')
      for (const [i, { key }] of shown.entries()) rows[i]!.push(...minuteCells(counted.get(key)))
    }
    if (shown.some(({ bucket }) => bucket)) {
      head.push('window', counted ? 'since' : 'discard/h')
      for (const [i, { key, bucket }] of shown.entries()) {
        const since = counted?.get(key)?.since
        const last = counted ? since && clockTime(since, wall) : discardsOf(bucket)
        rows[i]!.push(windowOf(bucket), last ?? '')
      }
    }
    return [
      '',
      ...table([head, ...rows], width),
      ...(readers === undefined ? [] : wrap(discardedText(readers), width, '  ')),
    ]
  })
}

const minuteCells = (counted: CountedKey | undefined): [string, string] => {
  const { passed, discarded } = counted?.last_minute ?? {}
  return [passed?.toLocaleString('en-US') ?? '', discarded?.toLocaleString('en-US') ?? '']
}

/** How full the bucket's window is. */
const windowOf = ({ limit, used = 0 }: Partial<BucketState> = {}) =>
  limit === undefined ? '' : `${short(used)}/${short(limit)}`

/** How many events of the bucket were discarded in the last hour. */
const discardsOf = (bucket: BucketState | undefined) =>
  bucket && `${bucket.is_exact ? '' : '~'}${short(bucket.discarded_last_hour)}`
