import type { DestinationRun } from './destination-run.js'
import type { SourceRun } from './source-run.js'
import type { Stages } from './stages.js'

/** What a reload or a shutdown would wait for in vain. */

/** Components that would block a reload, unless the new configuration fixes them. */
export interface Stuck {
  /** Processors that do not finish with a batch; empty if destinations are the reason. */
  readonly processors: readonly string[]
}

/**
 * During a reload: whether every ending destination with remaining events is failing or paused, or its full buffer is
 * not emptied, or nothing is left to do but for processors that do not finish. One that leaves what it has to its
 * successor waits for its attempts only. Undefined: something may still move.
 */
export function stuckOf(ending: readonly DestinationRun[], stages: Pick<Stages, 'hanging'>): Stuck | undefined {
  const open = ending
    .map(({ delivery }) => delivery)
    .filter(({ state, isLeaving, outage }) => state !== 'stopped' && !(isLeaving && !outage.isAttempting))
  const isBlocked =
    open.length === 0 ? ending.some(({ buffer }) => buffer?.isFull) : open.every(({ state }) => state !== 'ready')
  if (isBlocked) return { processors: [] }
  const processors = stages.hanging()
  const isIdle = open.every(delivery => delivery.state !== 'ready' || delivery.inFlight().events === 0)
  return processors.length > 0 && isIdle ? { processors } : undefined
}

/**
 * During a shutdown: whether the remaining events wait for an operator, for a pause longer than the remaining `leftMs`,
 * or in a disk buffer for a destination that fails and makes no attempt just now, and are safe without being delivered:
 * they are in files or buffers, or their sender is asked to resend them.
 */
export function isOnHold(
  destinations: readonly DestinationRun[],
  sources: readonly { readonly run: SourceRun }[],
  leftMs: number,
): boolean {
  const waits = ({ delivery: { state, outage }, buffer }: DestinationRun) =>
    state === 'holding' ||
    outage.pausedMs > leftMs ||
    (buffer !== undefined && outage.failures !== undefined && !outage.isAttempting)
  return (
    destinations.some(waits) &&
    destinations.every(one => waits(one) || one.delivery.state === 'stopped' || one.delivery.inFlight().events === 0) &&
    sources.every(({ run: { source, output } }) => !source?.once || source.answers || output.unsettled === 0)
  )
}
