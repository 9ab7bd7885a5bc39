import { throttle } from '../../../components/processors/throttle.js'
import { UsageError } from '../../../daemon/process/command-line.js'
import { splitInput } from '../../../engine/config/inputs.js'
import type { ComponentConfig, Config } from '../../../engine/config/load.js'

/** The part of a configuration that events pass before they reach a throttle. */
export interface Way {
  readonly throttle: string
  readonly sources: readonly ComponentConfig<'source'>[]
  readonly processors: readonly ComponentConfig<'processor'>[]
  /** Ids of the components that read each output (`app_logs`, `wanted.discarded`). */
  readonly readers: ReadonlyMap<string, readonly string[]>
}

/** All paths from the sources to a throttle. */
export function wayTo(config: Config, throttleId: string): Way {
  const sources = new Map(config.sources.map(source => [source.id, source]))
  const processors = new Map(config.processors.map(processor => [processor.id, processor]))
  const readers = new Map<string, string[]>()
  const met = new Set<string>()
  const follow = (id: string) => {
    if (met.has(id)) return
    met.add(id)
    for (const input of processors.get(id)?.inputs ?? []) {
      const others = readers.get(input)
      if (others) others.push(id)
      else readers.set(input, [id])
      follow(splitInput(input)[0])
    }
  }
  follow(throttleId)
  const isBefore = ({ id }: { id: string }) => met.has(id) && id !== throttleId
  return {
    throttle: throttleId,
    sources: [...sources.values()].filter(isBefore),
    processors: [...processors.values()].filter(isBefore),
    readers,
  }
}

export function isThrottle({ type }: ComponentConfig<'processor'>): boolean {
  return type === throttle.type
}

/** Throws UsageError if a processor of the way cannot be simulated: one that keeps events, or makes some in time. */
export function checkWay({ processors, throttle: throttleId }: Way): void {
  const keeping = processors.find(
    processor => !isThrottle(processor) && (processor.plan?.keeps || processor.plan?.waits || processor.plan?.every),
  )
  if (!keeping) return
  const { id, type } = keeping
  throw new UsageError(
    `${id} is before the throttle, and a processor of type ${type} that keeps events for some time cannot be simulated; \
use --tap ${throttleId} to simulate what a running daemon gives the throttle, \
or record events behind ${id} (sluice tap ${id} > FILE) and simulate the file without a configuration`,
    'simulate',
  )
}
