import type { Delivery, DeliveryState } from './delivery.js'
import type { SourceRun } from './source-run.js'

/** States in which a delivery does nothing by itself. */
const IDLE: readonly DeliveryState[] = ['holding', 'stopped']

/**
 * While an engine stops: whether only an operator could bring further what is left, and nothing would be lost without
 * it, because it is in files or buffers, or whoever sent it is told to send it again.
 */
export function isOnHold(all: Iterable<Delivery>, sources: readonly { readonly run: SourceRun }[]): boolean {
  const deliveries = [...all]
  return (
    deliveries.some(({ state }) => state === 'holding') &&
    deliveries.every(delivery => IDLE.includes(delivery.state) || delivery.inFlight().events === 0) &&
    sources.every(({ run: { source, outlet } }) => !source.once || source.answers || outlet.unsettled === 0)
  )
}
