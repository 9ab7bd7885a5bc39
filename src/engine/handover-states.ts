import type { HandoverState, Lifecycle } from '../core/component.js'

/** State that components pass to their successors on reload, by component id. */
export class HandoverStates {
  readonly #left = new Map<string, HandoverState>()
  readonly #taken = new Set<string>()

  /** Takes the state of a component that has ended normally. */
  collect(id: string, component: Lifecycle): void {
    const handoverState = component.handOver?.()
    if (handoverState) this.#left.set(id, handoverState)
  }

  /** The state for a new component; undefined if there is none. */
  take(id: string): unknown {
    this.#taken.add(id)
    return this.#left.get(id)?.value
  }

  /** The new configuration failed to start. Its components return the state that they had taken. */
  giveBack(): void {
    this.#taken.clear()
  }

  /** The new components run. Releases states that no component took. */
  async settle(): Promise<void> {
    const rest = [...this.#left].filter(([id]) => !this.#taken.has(id))
    this.#left.clear()
    for (const [, { release }] of rest) await release?.()
  }
}
