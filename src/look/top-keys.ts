import { LONGEST_MS } from '../admin/keys.js'
import { textOf } from '../admin/socket.js'
import type { KeyCounts } from '../core/component.js'
import { printable } from '../lib/printable.js'
import { ask } from './daemon-socket.js'
import { type DaemonView, short, table } from './daemon-view.js'

/** The keys of one throttle over a while. */
export interface ThrottleKeys extends KeyCounts {
  readonly id: string
  /** How long it was counted. */
  readonly seconds: number
}

const SHOWN_KEYS = 5
const SHOWN_THROTTLES = 3

/** Lets the throttles of a daemon count by key for so long, or until the signal aborts; without one it comes back at once. */
export async function keysOf(
  socket: string,
  { scrape }: DaemonView,
  forMs: number,
  signal: AbortSignal,
): Promise<ThrottleKeys[]> {
  const ids = [...scrape.by('component_id', 'sluice_throttle_buckets').keys()].slice(0, SHOWN_THROTTLES)
  const all = await Promise.all(ids.map(id => keysOfOne(socket, id, forMs, signal)))
  return all.filter(keys => keys !== undefined)
}

async function keysOfOne(
  socket: string,
  id: string,
  forMs: number,
  signal: AbortSignal,
): Promise<ThrottleKeys | undefined> {
  const ms = Math.min(LONGEST_MS, Math.max(1, Math.round(forMs)))
  const query = new URLSearchParams({ component: id, for: String(ms) })
  const answer = await ask(socket, `/keys?${query}`, signal)
  const text = await textOf(answer)
  // Another configuration may have taken its place.
  return answer.statusCode === 200 ? { id, seconds: ms / 1000, ...(JSON.parse(text) as KeyCounts) } : undefined
}

/** A table for each throttle of which something came: its busiest keys. */
export function keyLines(throttles: readonly ThrottleKeys[], width: number): string[] {
  return throttles.flatMap(({ id, seconds, exact, keys }) => {
    if (keys.length === 0) return []
    const rows = keys
      .slice(0, SHOWN_KEYS)
      .map(({ key, passed, discarded }) => [
        key === null ? '(no key)' : printable(key),
        ...[passed, discarded].map(events => short(events / seconds)),
      ])
    const head = `${id}: busiest keys${exact ? '' : ' (a sample)'}`
    return ['', ...table([[head, 'passed/s', 'discard/s'], ...rows], width)]
  })
}
