import { waits } from './throttle.js'
import type { Topology } from './topology.js'

/**
 * Whether an event may come to these inputs more than once: on several ways, from a client that asks again, or as parts
 * of parts, which have the same mark.
 */
export function mayRepeat({ sources, processors, destinations }: Topology, inputs: readonly string[]): boolean {
  const seen = new Set<string>()
  const repeats = (output: string, isExploded: boolean): boolean => {
    const owner = output.split('.')[0]!
    if (seen.has(owner)) return true
    seen.add(owner)
    if (destinations.some(({ id }) => id === owner)) return true
    if (sources.some(({ id, kind }) => id === owner && kind === 'clients')) return true
    const processor = processors.find(({ id }) => id === owner)
    if (!processor) return false
    const explodes = processor.deed === 'explode'
    if (explodes && isExploded) return true
    return processor.inputs.some(input => repeats(input, isExploded || explodes))
  }
  return inputs.some(input => repeats(input, false))
}

/** Whether events of a topic reach a destination in order: on one way, one request at a time, and in a buffer that stays. */
export function promisesOrder({ sources, processors, destinations }: Topology, topic: string, id: string): boolean {
  const destination = destinations.find(one => one.id === id)!
  const isTopic = sources.some(source => source.id === topic && source.kind === 'topic')
  // What was given up may be read again after a crash.
  if (
    !isTopic ||
    destination.maxAttempts !== undefined ||
    (destination.kind === 'receiver' && destination.inFlight !== 1)
  )
    return false
  const ways = (output: string): number => {
    const [owner = '', side] = output.split('.')
    if (output === topic) return 1
    if (side === 'rejected') return 2
    const processor = processors.find(one => one.id === owner)
    // Such a processor adds batches to its summary in the order in which it is done with them.
    if (processor?.deed === 'summarize' && processor.concurrency > 1) return 2
    // Events of one bucket wait, and others overtake them. Backlog that waits in vain is discarded after what was
    // discarded at once.
    if (processor?.deed === 'throttle' && waits(processor.throttle)) {
      if (processor.throttle.keyed || (side === 'discarded' && processor.throttle.onBacklog === 'pace')) return 2
    }
    return processor ? processor.inputs.reduce((sum, input) => sum + ways(input), 0) : 0
  }
  return destination.inputs.reduce((sum, input) => sum + ways(input), 0) === 1
}
