/** The last task of each key that has tasks waiting or running. */
const last = new Map<string, Promise<unknown>>()

/**
 * Runs the tasks of one key one after the other, in the order of the calls, for the whole process. The result is that
 * of the task; a task that fails does not affect those after it.
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
