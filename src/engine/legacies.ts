import type { Legacy, Lifecycle } from '../core/component.js'

/** What components leave to those of the same options that take their place, by id. */
export class Legacies {
  readonly #left = new Map<string, Legacy>()
  readonly #taken = new Set<string>()

  /** Asks a component that has come to its end in order. */
  collect(id: string, component: Lifecycle): void {
    const legacy = component.handOver?.()
    if (legacy) this.#left.set(id, legacy)
  }

  /** What a component has to go on with. */
  take(id: string): unknown {
    this.#taken.add(id)
    return this.#left.get(id)?.value
  }

  /** Those that took something come to nothing: others may. */
  giveBack(): void {
    this.#taken.clear()
  }

  /** Those that took something run; what nobody took is let go of. */
  async settle(): Promise<void> {
    const rest = [...this.#left].filter(([id]) => !this.#taken.has(id))
    this.#left.clear()
    for (const [, { release }] of rest) await release?.()
  }
}
