import type { Logger } from 'pino'
import { createEventDecider } from '../../throttle/create-decider.js'
import { TOO_LATE } from '../../throttle/decisions.js'
import type { EventDecider } from '../../throttle/event-decider.js'
import { looksLikeSeconds } from '../../throttle/event-time.js'
import { LATE } from '../../throttle/event-windows.js'
import type { ThrottleOptions } from './options.js'
import { DECISIONS, DECISIONS_HELP, type ThrottleMetrics } from './throttle-metrics.js'

/** What a throttle needs in event time, and does not load otherwise. */
export const inEventTime = { createEventDecider, countInEventTime }
export type InEventTime = typeof inEventTime

/** Creates a function that updates the counters for event time after each batch. */
function countInEventTime(
  decider: EventDecider,
  { time_field }: ThrottleOptions,
  metrics: ThrottleMetrics,
  log: Logger,
): () => void {
  const { limiter } = decider
  const late = metrics.counter(DECISIONS, DECISIONS_HELP, { decision: 'late' })
  const untimed = (reason: string) =>
    metrics.counter('sluice_throttle_untimed_events_total', 'Events that were counted at their arrival, by reason.', {
      reason,
    })
  const [unreadable, ahead] = [untimed('unreadable'), untimed('ahead')]
  metrics.gauge(
    'sluice_throttle_kept_windows',
    'Windows in memory, without the newest of each bucket.',
    () => limiter.kept,
  )
  const forgotten = metrics.counter(
    'sluice_throttle_forgotten_windows_total',
    'Windows that were dropped early because there was no room.',
  )
  // The predecessor of an inherited limiter has counted these.
  let counted = limiter.room.forgotten
  let warned = false
  return () => {
    late.value += decider.counts[LATE]! + decider.counts[TOO_LATE]!
    unreadable.value += decider.unreadable
    ahead.value += decider.ahead
    forgotten.value += limiter.room.forgotten - counted
    counted = limiter.room.forgotten
    if (warned || !looksLikeSeconds(limiter.progress.oldest)) return
    warned = true
    log.warn(
      { field: time_field === 'auto' ? time_field : time_field?.text },
      'time_field must contain milliseconds; its numbers look like seconds',
    )
  }
}
