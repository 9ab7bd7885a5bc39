import type { Seeded } from '../support/seeded.js'
import { DEEDS, type Deed } from './processors.js'
import type { ThrottleSpec } from './throttle.js'
import type { World } from './world.js'

/** What a run's pipeline is made of. A reload changes options, and never where an event has to go in the end. */

export interface SourceSpec {
  readonly id: string
  readonly kind: 'topic' | 'clients'
  readonly batch: number
  readonly large: boolean
  readonly version: number
}

export interface ProcessorSpec {
  readonly id: string
  readonly inputs: readonly string[]
  readonly deed: Deed | 'throttle'
  readonly throttle: ThrottleSpec
  readonly every: number
  readonly delay: number
  readonly concurrency: number
  readonly onError: 'pass' | 'discard' | 'dead_letter'
  readonly version: number
}

export interface DestinationSpec {
  readonly id: string
  readonly kind: 'receiver' | 'file'
  readonly inputs: readonly string[]
  readonly buffer: 'memory' | 'disk'
  readonly bufferBytes: number
  readonly maxEvents: number
  readonly maxWaitMs: number
  readonly inFlight: number | 'auto'
  readonly timeoutMs: number
  readonly maxAttempts: number | undefined
  readonly holdAfter: number
  readonly onReject: 'dead_letter' | 'discard'
  readonly version: number
}

export interface Topology {
  readonly sources: readonly SourceSpec[]
  readonly processors: readonly ProcessorSpec[]
  readonly destinations: readonly DestinationSpec[]
  readonly shutdownMs: number
}

const TOPICS = ['a', 'b']

export function makeTopology({ random, size }: World): Topology {
  const sources = TOPICS.slice(0, random.chance(size.secondSource) ? 2 : 1).map((id): SourceSpec => {
    const kind = id === 'b' && random.chance(0.5) ? 'clients' : 'topic'
    return { id, kind, batch: 1 + random.below(size.batch), large: random.chance(0.2), version: 0 }
  })
  /** Outputs, and whether the events there may have been summarized. */
  const outputs = new Map<string, boolean>(sources.map(({ id }) => [id, false]))
  const pick = (some: readonly string[]) => [
    ...new Set(Array.from({ length: 1 + random.below(2) }, () => random.pick(some))),
  ]
  const processors: ProcessorSpec[] = []
  for (let i = 0; i < random.below(size.processors); i++) {
    const id = `p${i}`
    const inputs = pick([...outputs.keys()])
    const isSummarized = inputs.some(input => outputs.get(input))
    const deed = isSummarized ? 'pass' : random.pick([...DEEDS, 'throttle'] as const)
    processors.push({
      id,
      inputs,
      deed,
      every: 2 + random.below(4),
      delay: random.chance(0.4) ? 5 + random.below(60) : 0,
      concurrency: random.pick([1, 1, 3]),
      onError: random.pick(['pass', 'discard', 'dead_letter'] as const),
      throttle: {
        limit: 1 + random.below(4),
        windowMs: random.pick([50, 500, 5000]),
        mode: random.pick(['fixed', 'sliding'] as const),
        keyed: random.chance(0.5),
        waitMs: random.pick([0, 0, 40, 2000, 60_000]),
        onBacklog: random.pick(['as_live', 'as_live', 'pace', 'pace', 'pass'] as const),
        maxDelayMs: random.pick([100, 3000, 3_600_000]),
      },
      version: 0,
    })
    outputs.set(id, isSummarized || deed === 'summarize')
    if (deed === 'route' || deed === 'copy') outputs.set(`${id}.chosen`, isSummarized)
    if ((deed === 'discard' || deed === 'throttle') && random.chance(0.5)) outputs.set(`${id}.discarded`, isSummarized)
  }
  const destinations: DestinationSpec[] = []
  for (let i = 0; i < 1 + random.below(size.destinations); i++) {
    const id = `d${i}`
    destinations.push(
      makeDestination(id, i === 0 ? allUnread(outputs, processors, pick) : pick([...outputs.keys()]), random),
    )
    // Nobody but the last reads what it refuses, and it has no output of its own.
    if (i < 2 && random.chance(0.2)) outputs.set(`${id}.rejected`, true)
  }
  return { sources, processors, destinations, shutdownMs: random.pick([1000, 5000, 30_000]) }
}

/** The first destination reads at least what comes out at the end. */
function allUnread(
  outputs: ReadonlyMap<string, boolean>,
  processors: readonly ProcessorSpec[],
  pick: (some: readonly string[]) => string[],
): string[] {
  const names = [...outputs.keys()]
  const unread = names.filter(name => !processors.some(({ inputs }) => inputs.includes(name)))
  return [...new Set([...pick(names), ...unread.slice(-1)])]
}

function makeDestination(id: string, inputs: readonly string[], random: Seeded): DestinationSpec {
  const kind = random.chance(0.3) ? 'file' : 'receiver'
  return {
    id,
    kind,
    inputs,
    buffer: random.chance(0.5) ? 'disk' : 'memory',
    bufferBytes: random.pick([3000, 20_000, 1_000_000]),
    maxEvents: random.pick([1, 5, 50]),
    maxWaitMs: random.pick([1, 50, 1000]),
    inFlight: random.pick([1, 1, 2, 4, 'auto']),
    timeoutMs: random.pick([500, 2000, 10_000]),
    maxAttempts: random.chance(0.2) ? 1 + random.below(4) : undefined,
    holdAfter: random.pick([0, 2, 5]),
    onReject: random.chance(0.8) ? 'dead_letter' : 'discard',
    version: 0,
  }
}

/** The topology that a reload asks for. */
export function changed(topology: Topology, random: Seeded): Topology {
  const now = <T extends { version: number }>(one: T, more: Partial<T> = {}): T =>
    random.chance(0.5) ? one : { ...one, version: one.version + random.below(2), ...more }
  return {
    sources: topology.sources.map(source => now(source)),
    processors: topology.processors.map(one => now(one, { delay: random.chance(0.5) ? one.delay : random.below(30) })),
    destinations: topology.destinations.map(one =>
      now(one, {
        maxEvents: random.pick([1, 5, 50]),
        maxWaitMs: random.pick([1, 50, 1000]),
        buffer: random.chance(0.7) ? one.buffer : random.pick(['memory', 'disk']),
      }),
    ),
    shutdownMs: topology.shutdownMs,
  }
}
