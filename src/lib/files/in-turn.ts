/** The last task of each key with waiting or running tasks. */
const last = new Map<string, Promise<unknown>>()

/**
 * Runs the tasks of one key one after the other, in the order of the calls, within this process. Returns the result of
 * the task. A task that fails does not affect later ones.
 */
export function inTurn<T>(key: string, task: () => Promise<T>): Promise<T> {
  const result = (last.get(key) ?? Promise.resolve()).then(task)
  const settled = result.then(
    () => {},
    () => {},
  )
  last.set(key, settled)
  void settled.then(() => {
    if (last.get(key) === settled) last.delete(key)
  })
  return result
}
