import type { HandoverState, Lifecycle } from '../../core/component.js'
import type { WaitingBatches } from '../flow/waiting.js'

/** State that components pass to their successors on reload, by component id. */
export class HandoverStates {
  readonly #left = new Map<string, HandoverState>()
  readonly #taken = new Set<string>()
  /** Batches that wait for a processor's decision. Kept until the new components run. */
  waiting: WaitingBatches = new Map()

  /** When processors whose options stay emit next, by id, so that reloads do not delay them. */
  readonly dueAt = new Map<string, number>()

  /** Takes the state of a component that has ended normally. */
  collect(id: string, component: Lifecycle): void {
    const handoverState = component.handOver?.()
    if (handoverState) this.#left.set(id, handoverState)
  }

  /** The state for a new component, by its id or its previous id; undefined if there is none. */
  take(id: string, renamedFrom = id): unknown {
    const from = this.#left.has(id) ? id : renamedFrom
    this.#taken.add(from)
    return this.#left.get(from)?.value
  }

  takeWaiting(): WaitingBatches {
    const { waiting } = this
    this.waiting = new Map()
    return waiting
  }

  /** Call this if the new configuration failed to start. The state its components took can then be taken again. */
  giveBack(): void {
    this.#taken.clear()
  }

  /** Call this when the new components run. Releases states that no component took. */
  async settle(): Promise<void> {
    const rest = [...this.#left].filter(([id]) => !this.#taken.has(id))
    this.#left.clear()
    for (const [, { release }] of rest) await release?.()
  }
}
