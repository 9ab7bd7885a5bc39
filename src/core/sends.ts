/** The pending sends of a source that continues to read before its sends complete. */
export class Sends {
  /** Resolves when all sends so far have found room; undefined if they already have. */
  room: Promise<void> | undefined
  readonly #failed: (error: unknown) => void

  /** `failed` receives the error of a send. */
  constructor(failed: (error: unknown) => void) {
    this.#failed = failed
  }

  add(sent: Promise<void>): void {
    const caught = sent.catch(this.#failed)
    const all = this.room ? Promise.all([this.room, caught]) : caught
    const room = all.then(() => {
      if (this.room === room) this.room = undefined
    })
    this.room = room
  }
}
