import type { ComponentCounters } from '../../flow/counters.js'

/** A part of the pipeline that takes events and passes them on. */
export interface Watched {
  readonly id: string
  /** A number that changes whenever the part takes or passes on something. */
  moved(): number
  /** Whether the part has work to do now: it does not wait for a receiver, a disk, a time, or space downstream. */
  owes(): boolean
}

/** A number that changes whenever a component takes or finishes events. */
export function movedBy({ received, queued, passed, aside, discards, emittedEvents }: ComponentCounters): number {
  let moved = received.events - queued.events + passed.events + emittedEvents.events
  for (const amounts of [aside, discards]) for (const { events } of amounts.values()) moved += events
  return moved
}

export function watched(id: string, part: { readonly owes: boolean }, counters: ComponentCounters): Watched {
  const failures = () => [...counters.failures.values()].reduce((all, count) => all + count, 0)
  return { id, moved: () => movedBy(counters) + failures(), owes: () => part.owes }
}

/** Finds stuck parts. Counts inspections instead of time, since time also passes while the process is suspended. */
export class ProgressWatch {
  readonly #inspections: number
  readonly #keyOf: (part: Watched) => unknown
  #seen = new Map<unknown, { id: string; moved: number; stillFor: number }>()

  /**
   * A part that made no progress between `inspections` consecutive inspections is stuck. Parts with equal keys count as
   * the same part. By default, only an object is equal to itself.
   */
  constructor(inspections: number, keyOf: (part: Watched) => unknown = part => part) {
    this.#inspections = inspections
    this.#keyOf = keyOf
  }

  /** Inspects the parts. Returns the ids of stuck ones. */
  look(stages: readonly Watched[]): string[] {
    const seen = new Map<unknown, { id: string; moved: number; stillFor: number }>()
    for (const stage of stages) {
      if (!stage.owes()) continue
      const key = this.#keyOf(stage)
      const moved = stage.moved()
      const before = this.#seen.get(key)
      seen.set(key, { id: stage.id, moved, stillFor: before?.moved === moved ? before.stillFor + 1 : 0 })
    }
    this.#seen = seen
    return [...seen.values()].flatMap(({ id, stillFor }) => (stillFor >= this.#inspections ? [id] : []))
  }
}
