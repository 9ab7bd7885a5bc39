import type { ComponentMetrics } from '../../core/component.js'
import { short } from '../../lib/units.js'

/** A buffer or spool that uses this share of its maximum is almost full. */
const FULL_SHARE = 0.8

const DROPS = { buffer: ' (or it discards events, with when_full: drop_newest)', spool: '' }

/** Shows the events of a buffer or spool, and its size on disk. */
export function showStored(
  metrics: Pick<ComponentMetrics, 'fact' | 'gauge'>,
  kind: keyof typeof DROPS,
  bytes: () => number,
  maxBytes: number,
  events: () => number,
): void {
  const shown = (events = 0) => events > 0 && `${short(events)} buffered`
  metrics.fact({
    name: `sluice_${kind}_events`,
    help: `Events in the ${kind} that are not delivered.`,
    read: events,
    shown,
  })
  metrics.fact({
    name: `sluice_${kind}_bytes`,
    help: `Size of the ${kind} on disk, in bytes.`,
    read: bytes,
    live: buffered_bytes => ({ buffered_bytes }),
    problem(used, { id }) {
      const share = `${Math.round((used / maxBytes) * 100)} % full (${short(used)}B of ${short(maxBytes)}B)`
      const todo = `When it is full, its sources wait${DROPS[kind]}. Raise ${kind}.max_bytes, or make the receiver faster.`
      const isFull = maxBytes > 0 && used >= maxBytes * FULL_SHARE
      return isFull && { gravity: 'blocked', what: `${id}: its ${kind} is ${share}`, todo }
    },
  })
  metrics.gauge(`sluice_${kind}_max_bytes`, `Maximum size of the ${kind} on disk, in bytes.`, () => maxBytes)
}
