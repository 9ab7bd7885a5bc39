import type { Delivery } from '../flow/delivery/delivery.js'
import type { DiskBuffer } from '../flow/disk-buffer/disk-buffer.js'
import type { Stages } from './stages.js'

/** What a reload would wait for in vain, unless the new configuration is the cure. */
export interface Stuck {
  /** Processors that do not finish with a batch; none if destinations are the reason. */
  readonly processors: readonly string[]
}

/**
 * During a reload: whether every destination with remaining events is failing or paused, or its full buffer is not
 * emptied, or nothing is left to do but for processors that do not finish. One that leaves what it has to its successor
 * waits for its attempts only. Undefined: something may still move.
 */
export function stuckOf(
  all: Iterable<Delivery>,
  buffers: Iterable<DiskBuffer>,
  stages: Pick<Stages, 'hanging'>,
): Stuck | undefined {
  const open = [...all].filter(
    ({ state, isLeaving, outage }) => state !== 'stopped' && !(isLeaving && !outage.isAttempting),
  )
  const isBlocked =
    open.length === 0 ? [...buffers].some(({ isFull }) => isFull) : open.every(({ state }) => state !== 'ready')
  if (isBlocked) return { processors: [] }
  const processors = stages.hanging()
  const isIdle = open.every(delivery => delivery.state !== 'ready' || delivery.inFlight().events === 0)
  return processors.length > 0 && isIdle ? { processors } : undefined
}
