import type { BucketWait, WaitState } from '../../../core/component.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { FieldReader } from '../../../core/event/field-reader.js'
import { formatDuration } from '../../../lib/units.js'
import { EventKey } from '../../throttle/buckets/event-key.js'
import { longestWaits, type ThrottleOptions } from './options.js'

/** Bounds of the work for one question. What is beyond them is not in the answer. */
const MOST_EVENTS = 200_000
const MOST_BUCKETS = 10_000
const SHOWN_BUCKETS = 100

/** Counts waiting events by bucket, when somebody asks. */
export function waitingBuckets(
  options: ThrottleOptions,
  keyFields: readonly FieldReader[],
  events: Iterable<EventBatch>,
): WaitState {
  const key = new EventKey(keyFields)
  const found = new Map<string | null, { events: number; since: number }>()
  const why = new Set<string>()
  let left = MOST_EVENTS
  for (const batch of events) {
    if (left <= 0) break
    why.add(reasonFor(options, batch.isBacklog))
    for (let i = 0; i < batch.length && left > 0; i++, left--) {
      key.load(batch, i)
      const name = key.name()
      const bucket = found.get(name) ?? { events: 0, since: batch.receivedAt }
      if (bucket.events === 0 && found.size >= MOST_BUCKETS) continue
      bucket.events++
      bucket.since = Math.min(bucket.since, batch.receivedAt)
      found.set(name, bucket)
    }
  }
  const buckets = [...found].sort(([, a], [, b]) => b.events - a.events).slice(0, SHOWN_BUCKETS)
  return { options: [...why], buckets: buckets.map(([name, wait]) => shown(name, wait)) }
}

const shown = (key: string | null, { events, since }: { events: number; since: number }): BucketWait => ({
  key,
  events,
  since: new Date(since).toISOString(),
})

/** The option that lets an event wait. What is live waits behind backlog, too. */
function reasonFor(options: ThrottleOptions, isBacklog: boolean): string {
  const { live, backlog } = longestWaits(options)
  const isPaced = options.on_backlog === 'pace' && (isBacklog || live === 0)
  return isPaced
    ? `on_backlog: pace, for ${formatDuration(backlog)} at most`
    : `over_limit: wait, for ${formatDuration(live)} at most`
}
