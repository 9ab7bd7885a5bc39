import type { Checkpoints } from '../../core/component.js'
import { errorText } from '../../core/errors.js'
import type { Clock } from '../../lib/time.js'
import type { CheckpointStore } from '../state/checkpoints.js'

/** Saves the positions that a worker thread sends. */
export class SavedPositions {
  readonly #checkpoints: CheckpointStore
  readonly #clock: Clock
  /** The document that a source sent last. */
  readonly #documents = new WeakMap<Checkpoints, unknown>()

  constructor(checkpoints: CheckpointStore, clock: Clock) {
    this.#checkpoints = checkpoints
    this.#clock = clock
  }

  /** Where these sources go on: behind what they sent last, or what is saved. */
  of(sources: readonly { readonly id: string }[]): Map<string, unknown> {
    return new Map(
      sources.map(({ id }) => {
        const own = this.#checkpoints.forSource(id)
        return [id, this.#documents.has(own) ? this.#documents.get(own) : own.read()]
      }),
    )
  }

  moved(source: string, document: unknown): void {
    const own = this.#checkpoints.forSource(source)
    this.#documents.set(own, document)
    own.provide(() => this.#documents.get(own))
    own.changed()
  }

  /** Resolves when everything that the source sent is saved, or with why that is not possible. */
  flush(source: string): Promise<string | undefined> {
    return this.#checkpoints
      .forSource(source)
      .flush()
      .then(() => undefined, errorText)
  }

  /** When these were saved, wall clock; Infinity: all that was sent is saved. */
  savedAt(sources: readonly { readonly id: string }[]): Map<string, number> {
    const now = this.#clock.wall()
    return new Map(
      sources.map(({ id }) => {
        const { savedAt } = this.#checkpoints.forSource(id)
        return [id, savedAt >= now ? Number.POSITIVE_INFINITY : savedAt]
      }),
    )
  }
}
