import type { Delivery, DeliveryState } from '../flow/delivery/delivery.js'
import type { SourceRun } from './source-run.js'

/** States in which a delivery makes no attempts. */
const IDLE: readonly DeliveryState[] = ['holding', 'stopped']

/**
 * During a shutdown: whether the remaining events wait for an operator, or for a pause longer than the remaining
 * `leftMs`, and are safe without being delivered: they are in files or buffers, or their sender is asked to resend
 * them.
 */
export function isOnHold(
  all: Iterable<Delivery>,
  sources: readonly { readonly run: SourceRun }[],
  leftMs: number,
): boolean {
  const deliveries = [...all]
  const isPaused = ({ outage }: Delivery) => outage.pausedMs > leftMs
  return (
    deliveries.some(delivery => delivery.state === 'holding' || isPaused(delivery)) &&
    deliveries.every(
      delivery => IDLE.includes(delivery.state) || isPaused(delivery) || delivery.inFlight().events === 0,
    ) &&
    sources.every(({ run: { source, output } }) => !source.once || source.answers || output.unsettled === 0)
  )
}
