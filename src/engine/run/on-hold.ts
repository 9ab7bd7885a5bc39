import type { Delivery } from '../flow/delivery/delivery.js'
import type { DiskBuffer } from '../flow/disk-buffer/disk-buffer.js'
import type { SourceRun } from './source-run.js'

/**
 * During a shutdown: whether the remaining events wait for an operator, for a pause longer than the remaining `leftMs`,
 * or in a disk buffer for a destination that fails and makes no attempt just now, and are safe without being delivered:
 * they are in files or buffers, or their sender is asked to resend them.
 */
export function isOnHold(
  deliveries: ReadonlyMap<string, Delivery>,
  buffers: ReadonlyMap<string, DiskBuffer>,
  sources: readonly { readonly run: SourceRun }[],
  leftMs: number,
): boolean {
  const waits = ([id, { state, outage }]: [string, Delivery]) =>
    state === 'holding' ||
    outage.pausedMs > leftMs ||
    (buffers.has(id) && outage.failures !== undefined && !outage.isAttempting)
  const all = [...deliveries]
  return (
    all.some(waits) &&
    all.every(one => waits(one) || one[1].state === 'stopped' || one[1].inFlight().events === 0) &&
    sources.every(({ run: { source, output } }) => !source.once || source.answers || output.unsettled === 0)
  )
}
