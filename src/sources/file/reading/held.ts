import type { Tailer } from './tailer.js'

export interface HeldOptions {
  /** The file may have more to read. */
  onReady(tailer: Tailer): void
  /** It is not to be read for now. */
  onForget(tailer: Tailer): void
}

/** Files that are not to be read before what had their names was looked for. */
export class Held {
  readonly #options: HeldOptions
  readonly #tailers = new Set<Tailer>()

  constructor(options: HeldOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#tailers.size
  }

  /** A copy, for those that are held now. */
  get now(): readonly Tailer[] {
    return [...this.#tailers]
  }

  add(tailer: Tailer): void {
    this.#tailers.add(tailer)
    tailer.held = true
  }

  /** The same of one that may be in the queue already. */
  takeBack(tailer: Tailer): void {
    if (!tailer.isNew || tailer.reading || tailer.held) return
    this.#options.onForget(tailer)
    this.add(tailer)
  }

  release(tailers: readonly Tailer[]): void {
    for (const tailer of tailers) {
      if (!this.#tailers.delete(tailer)) continue
      tailer.held = false
      this.#options.onReady(tailer)
    }
  }

  delete(tailer: Tailer): void {
    this.#tailers.delete(tailer)
  }
}
