import type { Fact } from '../../core/fact.js'
import { short } from '../../lib/units.js'

/** A buffer or spool that uses this share of its maximum is almost full. */
export const FULL_SHARE = 0.8

const DROPS = { buffer: ' (or it discards events, with when_full: drop_newest)', spool: '' }

/** The problem of a buffer or spool, by its size in bytes. */
export function almostFull(kind: keyof typeof DROPS, maxBytes: number): Fact['problem'] {
  return (bytes, { id }) => {
    const share = `${Math.round((bytes / maxBytes) * 100)} % full (${short(bytes)}B of ${short(maxBytes)}B)`
    const what = `${id}: its ${kind} is ${share}`
    const todo = `When it is full, its sources wait${DROPS[kind]}. Raise ${kind}.max_bytes, or make the receiver faster.`
    return maxBytes > 0 && bytes >= maxBytes * FULL_SHARE && { gravity: 'blocked', what, todo }
  }
}

export const buffered: Fact['shown'] = (events = 0) => events > 0 && `${short(events)} buffered`
