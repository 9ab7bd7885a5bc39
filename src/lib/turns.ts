/** Runs tasks of the same key one after the other, in the order of the calls, and all others at the same time. */
export class Turns {
  /** The last task of each key with waiting or running tasks. */
  readonly #last = new Map<string, Promise<unknown>>()

  /** Returns the result of the task. A task that fails does not affect later ones. */
  take<T>(key: string, task: () => Promise<T>): Promise<T> {
    const result = (this.#last.get(key) ?? Promise.resolve()).then(task)
    const settled = result.then(
      () => {},
      () => {},
    )
    this.#last.set(key, settled)
    void settled.then(() => {
      if (this.#last.get(key) === settled) this.#last.delete(key)
    })
    return result
  }
}

const turns = new Turns()

/** The same for the whole process. Keys are paths of files, or other things that tasks share. */
export function inTurn<T>(key: string, task: () => Promise<T>): Promise<T> {
  return turns.take(key, task)
}
