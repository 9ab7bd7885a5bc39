import type { Delivery, DeliveryState } from '../flow/delivery/delivery.js'
import type { SourceRun } from './source-run.js'

/** States in which a delivery does nothing by itself. */
const IDLE: readonly DeliveryState[] = ['holding', 'stopped']

/**
 * While an engine stops: whether what is left waits for an operator, or for the end of a pause that takes longer than the
 * `leftMs` that the stop may still take, and nothing would be lost without it, because it is in files or buffers, or whoever
 * sent it is asked to send it again.
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
