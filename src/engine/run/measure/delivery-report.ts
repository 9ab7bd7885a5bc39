import type { Clock } from '../../../lib/time.js'
import type { Delivery } from '../../flow/delivery/delivery.js'
import type { DestinationState } from '../runtime.js'

const FAILING: readonly string[] = ['holding', 'retrying', 'failing', 'starting']

/** The state of a destination and of its current outage. */
export function destinationState(id: string, delivery: Delivery, clock: Clock): DestinationState {
  const { state, reason, outage, oldestAt } = delivery
  const now = clock.now()
  const at = (monotonic: number) => new Date(clock.wall() + monotonic - now).toISOString()
  const failures = FAILING.includes(state) ? outage.failures : undefined
  const { past } = outage
  return {
    id,
    state,
    reason,
    ...(failures && { since: at(failures.since), failures: failures.count, last_failure: at(failures.lastAt) }),
    ...(failures && outage.nextAt !== undefined && { next_attempt: at(Math.max(now, outage.nextAt)) }),
    ...(past && {
      last_outage: { since: at(past.since), until: at(past.until), failures: past.failures, error: past.error },
    }),
    ...(oldestAt !== undefined && { oldest_event: new Date(oldestAt).toISOString() }),
  }
}
