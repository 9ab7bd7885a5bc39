/** Runs tasks with the same key one after the other, in order of the calls. Tasks with other keys run concurrently. */
export class Turns {
  /** For each key with waiting or running tasks: the last task. */
  readonly #last = new Map<string, Promise<unknown>>()

  /** Resolves with the task's result. A task that fails does not affect later ones. */
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

/** Like `take`, but for all callers in this process. Keys are paths of files, or names of other shared things. */
export function inTurn<T>(key: string, task: () => Promise<T>): Promise<T> {
  return turns.take(key, task)
}
