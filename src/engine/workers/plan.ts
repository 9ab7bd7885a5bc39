import { availableParallelism } from 'node:os'
import { codecDefinition } from '../../codecs/loaded.js'
import type { ComponentConfig, Config } from '../../config/load.js'
import { splitInput } from '../../config/yaml/input.js'
import { Codec } from '../../core/codec.js'
import type { AnyDefinition } from '../../core/component.js'

/** What a plan is made of. */
export type Planned = Pick<Config, 'workers' | 'sources' | 'processors' | 'destinations'>

/** What runs on one worker thread: whole chains, each from its source as far as they go. */
export interface Part {
  readonly sources: readonly ComponentConfig<'source'>[]
  readonly processors: readonly ComponentConfig<'processor'>[]
  /** The outputs that components elsewhere read: `id`, or `id.output`. */
  readonly exits: readonly string[]
}

/**
 * Divides a configuration among worker threads; empty: everything runs on the main thread. Sources that can move are
 * distributed in turn. A processor goes to a thread if it can move too and everything that it reads is there. So what
 * several threads share, what keeps state, and everything behind either, stays on the main thread, in one place.
 * `stays` names components that must not move now; the others keep their places.
 */
export function planParts(
  { workers, sources, processors, destinations }: Planned,
  stays: (id: string) => boolean = () => false,
): Part[] {
  const canMove = ({ definition, onError, reach, given, options }: ComponentConfig) =>
    definition.movable === true &&
    onError !== 'dead_letter' &&
    !reach &&
    given !== undefined &&
    !isOfPlugin(definition, options)
  const movable = sources.filter(canMove)
  const threads = Math.min(threadsOf(workers), movable.length)
  const places = new Map(movable.map(({ id }, i) => [id, i % threads]))
  for (const id of places.keys()) if (stays(id)) places.delete(id)
  for (let found = threads > 0; found; ) {
    found = false
    for (const one of processors) {
      if (places.has(one.id) || !canMove(one) || stays(one.id)) continue
      const [place, ...others] = new Set(one.inputs.map(input => places.get(splitInput(input)[0])))
      if (place === undefined || others.length > 0) continue
      places.set(one.id, place)
      found = true
    }
  }
  const readers = [...processors, ...destinations]
  return Array.from({ length: threads }, (_, thread) => {
    const isHere = (id: string) => places.get(id) === thread
    const outside = readers.filter(({ id }) => !isHere(id)).flatMap(({ inputs }) => inputs)
    return {
      sources: sources.filter(({ id }) => isHere(id)),
      processors: processors.filter(({ id }) => isHere(id)),
      exits: [...new Set(outside)].filter(input => isHere(splitInput(input)[0])),
    }
  })
}

/** Threads load no plugins: what their code keeps is in one place. */
function isOfPlugin({ plugin }: AnyDefinition, options: unknown): boolean {
  return plugin !== undefined || namesPlugin(options)
}

function namesPlugin(value: unknown): boolean {
  if (value instanceof Codec) return value.definition.plugin !== undefined
  if (typeof value !== 'object' || value === null) return false
  if (codecDefinition((value as { codec?: unknown }).codec)?.plugin !== undefined) return true
  return Object.values(value).some(namesPlugin)
}

/** How many threads the option means. Where there is one processor, `auto` means none: threads would only cost. */
function threadsOf(workers: Planned['workers']): number {
  if (workers !== 'auto') return workers ?? 0
  const processors = availableParallelism()
  return processors > 1 ? processors : 0
}

/** The thread of each component that is on one, as its index. */
export function threadsBy(parts: readonly Part[]): Map<string, number> {
  return new Map(
    parts.flatMap(({ sources, processors }, thread) =>
      [...sources, ...processors].map(({ id }) => [id, thread] as [string, number]),
    ),
  )
}
