import type { Tailer } from './tailer.js'

export interface HeldOptions {
  /** Called when the file may have more to read. */
  onReady(tailer: Tailer): void
  /** Called when the file must not be read for now. */
  onForget(tailer: Tailer): void
}

/** Files that must not be read until the search for files that come before them is over. */
export class Held {
  readonly #options: HeldOptions
  readonly #tailers = new Set<Tailer>()

  constructor(options: HeldOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#tailers.size
  }

  /** A copy of the files that are held now. */
  get now(): readonly Tailer[] {
    return [...this.#tailers]
  }

  add(tailer: Tailer): void {
    this.#tailers.add(tailer)
    tailer.held = true
  }

  /** Holds a file that may already be in the queue. */
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
    tailer.held = false
  }
}
