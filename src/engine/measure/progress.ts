import type { ComponentCounters } from '../../flow/counters.js'

/** A part of the pipeline that takes events and gives them on. */
export interface Watched {
  readonly id: string
  /** Another number whenever it took or gave something. */
  moved(): number
  /** Whether it has something to do and nothing that it rightly waits for: room behind it, a receiver, a disk, a time. */
  owes(): boolean
}

/** What a component took out of its queue, and what became of events in it. */
function movedBy({ received, queued, passed, aside, discards, emittedEvents, failures }: ComponentCounters): number {
  let moved = received.events - queued.events + passed.events + emittedEvents.events
  for (const amounts of [aside, discards]) for (const { events } of amounts.values()) moved += events
  for (const count of failures.values()) moved += count
  return moved
}

export function watched(id: string, part: { readonly owes: boolean }, counters: ComponentCounters): Watched {
  return { id, moved: () => movedBy(counters), owes: () => part.owes }
}

/**
 * Finds the stages that stand still though they owe something. It goes by looks, not by time: a process that was stopped
 * for a while, or had no processor, has not been looked at meanwhile.
 */
export class ProgressWatch {
  readonly #looks: number
  #seen = new Map<Watched, { moved: number; stillFor: number }>()

  /** Standing still in so many looks in a row, and at the one before them, is being stuck. */
  constructor(looks: number) {
    this.#looks = looks
  }

  /** Ids of those that are stuck. */
  look(stages: readonly Watched[]): string[] {
    const seen = new Map<Watched, { moved: number; stillFor: number }>()
    for (const stage of stages) {
      if (!stage.owes()) continue
      const moved = stage.moved()
      const before = this.#seen.get(stage)
      seen.set(stage, { moved, stillFor: before?.moved === moved ? before.stillFor + 1 : 0 })
    }
    this.#seen = seen
    return [...seen].flatMap(([{ id }, { stillFor }]) => (stillFor >= this.#looks ? [id] : []))
  }
}
