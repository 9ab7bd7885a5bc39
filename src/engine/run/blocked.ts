import type { DestinationRun } from './destination-run.js'
import type { SourceRun } from './source-run.js'
import type { Stages } from './stages.js'

/** Finds components for which a reload or a shutdown would wait in vain. */

/** Components that block a reload. The new configuration may fix them. */
export interface Stuck {
  /** Processors that do not finish with a batch; empty if destinations are the cause. */
  readonly processors: readonly string[]
}

/**
 * During a reload: why waiting longer is useless; undefined if there may still be progress. Waiting is useless if all
 * ending destinations that have events are failing or paused, if a full buffer is not being emptied, or if only stuck
 * processors have work. If a destination passes its events to its successor, the reload waits only until the
 * destination's attempts end.
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
 * During a shutdown: whether the remaining events are safe but cannot be delivered soon. Events are safe if files or
 * buffers have them, or if their sender is asked to resend them. They cannot be delivered soon if this is true of every
 * destination with events:
 * - it waits for an operator and makes no attempt now, or
 * - it pauses for longer than the remaining `leftMs`, or
 * - it is failing, has a disk buffer, and makes no attempt now.
 */
export function isOnHold(
  destinations: readonly DestinationRun[],
  sources: readonly { readonly run: SourceRun }[],
  leftMs: number,
): boolean {
  const waits = ({ delivery: { state, outage }, buffer }: DestinationRun) =>
    (state === 'holding' && !outage.isAttempting) ||
    outage.pausedMs > leftMs ||
    (buffer !== undefined && outage.failures !== undefined && !outage.isAttempting)
  return (
    destinations.some(waits) &&
    destinations.every(one => waits(one) || one.delivery.state === 'stopped' || one.delivery.inFlight().events === 0) &&
    sources.every(({ run: { source, output } }) => !source?.once || source.answers || output.unsettled === 0)
  )
}
