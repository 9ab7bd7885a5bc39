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
function movedBy({ received, queued, passed, aside, discards, emittedEvents, failures }: ComponentCounters): number {
  let moved = received.events - queued.events + passed.events + emittedEvents.events
  for (const amounts of [aside, discards]) for (const { events } of amounts.values()) moved += events
  for (const count of failures.values()) moved += count
  return moved
}

export function watched(id: string, part: { readonly owes: boolean }, counters: ComponentCounters): Watched {
  return { id, moved: () => movedBy(counters), owes: () => part.owes }
}

/** Finds stuck parts. Counts inspections instead of time, since time also passes while the process is suspended. */
export class ProgressWatch {
  readonly #inspections: number
  #seen = new Map<Watched, { moved: number; stillFor: number }>()

  /** A part that made no progress between `inspections` consecutive inspections is stuck. */
  constructor(inspections: number) {
    this.#inspections = inspections
  }

  /** Inspects the parts. Returns the ids of stuck ones. */
  look(stages: readonly Watched[]): string[] {
    const seen = new Map<Watched, { moved: number; stillFor: number }>()
    for (const stage of stages) {
      if (!stage.owes()) continue
      const moved = stage.moved()
      const before = this.#seen.get(stage)
      seen.set(stage, { moved, stillFor: before?.moved === moved ? before.stillFor + 1 : 0 })
    }
    this.#seen = seen
    return [...seen].flatMap(([{ id }, { stillFor }]) => (stillFor >= this.#inspections ? [id] : []))
  }
}
