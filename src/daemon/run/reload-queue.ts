/**
 * Runs reloads one at a time: each starts from the addresses that the previous one left. However many are requested
 * during a reload, one follows it, since that one reads the files as the last request left them.
 */
export class ReloadQueue {
  readonly #reload: () => Promise<void>
  #last = Promise.resolve()
  /** The reload that was requested and has not begun. */
  #next: Promise<void> | undefined

  constructor(reload: () => Promise<void>) {
    this.#reload = reload
  }

  /** Resolves when a reload that begins after this call has ended. */
  request(): Promise<void> {
    this.#next ??= this.add(() => {
      this.#next = undefined
      return this.#reload()
    })
    return this.#next
  }

  /** Runs other work in turn. */
  add(work: () => Promise<void>): Promise<void> {
    this.#last = this.#last.then(work)
    return this.#last
  }

  /** Resolves when all that was requested so far has ended. */
  get idle(): Promise<void> {
    return this.#last
  }
}
