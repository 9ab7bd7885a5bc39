import type { Logger } from 'pino'
import type { EventBatch } from '../../../core/event/batch.js'
import { above0, type Fact } from '../../../core/fact.js'
import type { LogLimit } from '../../../lib/log-limit.js'
import { counted, short } from '../../../lib/units.js'
import type { EventKey } from '../../throttle/buckets/event-key.js'
import { LateKeys } from '../../throttle/counts/late-keys.js'
import { createEventDecider } from '../../throttle/create-decider.js'
import type { Decider } from '../../throttle/decider.js'
import { LATE, TOO_LATE } from '../../throttle/decisions.js'
import { looksLikeSeconds } from '../../throttle/event/time.js'
import type { ThrottleConfig } from './options.js'
import { DECIDED, DECISIONS_HELP, type ThrottleMetrics } from './throttle-metrics.js'

/** The part of a throttle that is loaded only for event time. */
export const inEventTime = { createEventDecider, countInEventTime }
export type InEventTime = typeof inEventTime

/** Creates a function that updates the counters for event time after each batch. */
function countInEventTime(
  decider: Decider,
  { time_field, on_late }: ThrottleConfig,
  metrics: ThrottleMetrics,
  { log, reports, key }: { readonly log: Logger; readonly reports: LogLimit; readonly key: EventKey },
): (batch: EventBatch) => void {
  const timing = decider.inEventTime!
  const { room } = timing
  const late = metrics.counter(DECIDED, DECISIONS_HELP, { decision: 'late' })
  const untimed = (reason: string, problem?: Fact['problem']) =>
    metrics.counter(
      'sluice_throttle_untimed_events_total',
      'Events that were counted at their arrival time instead of their own time, by reason.',
      { reason },
      { problem },
    )
  const unreadable = untimed('unreadable')
  metrics.gauge(
    'sluice_throttle_kept_windows',
    'Windows in memory, not counting the newest window of each bucket.',
    () => room.rows,
  )
  const forgotten = metrics.counter(
    'sluice_throttle_forgotten_windows_total',
    'Windows that were removed early because there was not enough room.',
  )
  const lateKeys = new LateKeys(key)
  const help = 'Keys most of whose last events were late.'
  const problem = above0(
    'limits',
    keys => `most events of ${counted(keys, 'key')} are late`,
    'With on_late: pass, no limit holds for late events; with discard, they are discarded. Their times went back, for example because a clock was set back or summer time ended; the log names a bucket (SLUICE_EVENTS_LATE). Write times in UTC or with their offset. Otherwise, raise allowed_lateness above the step, or remove time_field to count events when they arrive.',
  )
  metrics.fact({ name: 'sluice_throttle_late_keys', help, read: () => lateKeys.count, problem })
  const ahead = untimed('ahead', (events, { id, received }) => {
    const what = `${id}: the times of ${short(events)} of its ${counted(received, 'event')} are ahead of the clock`
    const todo =
      'They count when they arrive. Correct the clock of the machine that writes them, or write times in UTC or with their offset. If they are right, raise allowed_lateness.'
    return events > 0 && events * 2 >= received && { gravity: 'uncounted', what, todo }
  })
  // If the limiter is inherited, the predecessor has already counted the rows forgotten so far.
  let before = room.forgotten
  let warned = false
  return batch => {
    const lateHere = decider.counts[LATE]! + decider.counts[TOO_LATE]!
    late.value += lateHere
    const bucket = lateKeys.see(batch, decider.decisions, lateHere)
    const repeated = bucket === undefined ? undefined : reports.next('late')
    if (repeated) log.warn({ code: 'SLUICE_EVENTS_LATE', bucket, ...repeated }, lateText(on_late))
    unreadable.value += timing.unreadable
    ahead.value += timing.ahead
    forgotten.value += room.forgotten - before
    before = room.forgotten
    if (warned || !looksLikeSeconds(timing.progress.oldest)) return
    warned = true
    log.warn(
      { field: time_field === 'auto' ? time_field : time_field?.text },
      'time_field must contain milliseconds; its numbers look like seconds',
    )
  }
}

const lateText = (onLate: ThrottleConfig['on_late']) =>
  `most events of this bucket are late, and ${onLate === 'discard' ? 'are discarded' : 'pass without a limit'}: their times went back, as when a clock is set back. Write times in UTC or with their offset, or raise allowed_lateness above the step, or remove time_field`
